"""Where ports meet adapters: the only module that imports ``registry.adapters``, and only inside functions.

One function builds one adapter and returns it as its port, so that a command names what it needs and pays for nothing
else::

    def record_store(root: Path) -> RecordStore:
        from registry.adapters.records import RecordFiles

        return RecordFiles(root / "manifests")

A command calls these functions and hands the results to one workflow. No rule of the archive lives here.
"""

from __future__ import annotations
