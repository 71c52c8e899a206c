"""The table of commands. ``reckon --help`` is written from it without importing any of them.

A command is one module ``registry/cli/<name>.py`` that holds ``command``, and one line here. ``tests/architecture``
refuses a line without a module and a module without a line.
"""

from __future__ import annotations

from typing import Final

from registry.cli.lazy import Entry

RECORD: Final = "Record"
LOOK: Final = "Look"
PROVE: Final = "Prove"
PUBLISH: Final = "Publish"
KEEP: Final = "Keep"
SHELL: Final = "Shell"

COMMANDS: Final = (
    Entry(name="record", help="Write down a stage, before and after it runs.", section=RECORD),
    Entry(name="sync", help="Tell the tracker what it was not told yet; check its curves.", section=RECORD),
    Entry(name="incident", help="Write down what happened to a run, or list it.", section=RECORD),
    Entry(name="adopt", help="Keep what others told of their runs, as claims.", section=RECORD),
    Entry(name="withhold", help="Declare that bytes may not be published.", section=RECORD),
    Entry(name="status", help="Say what is recorded, stale, missing or interrupted.", section=LOOK),
    Entry(name="show", help="Show what is on record of an artifact.", section=LOOK),
    Entry(name="log", help="List executions, newest first.", section=LOOK),
    Entry(name="tree", help="Draw the lineage of an artifact.", section=LOOK),
    Entry(name="batch", help="List the documents of one step's batch.", section=LOOK),
    Entry(name="seen", help="Say when a document was trained on, and what is free of it.", section=LOOK),
    Entry(name="ladder", help="Derive rungs of the ladder, beside the published figures.", section=LOOK),
    Entry(name="program", help="Lower a training step; fingerprint and compare programs.", section=LOOK),
    Entry(name="plan", help="Write a launch bundle for a run, a segment or a window.", section=LOOK),
    Entry(name="root", help="Hash the tensors of a checkpoint, whatever its container.", section=PROVE),
    Entry(name="order", help="Show a run's mixture in whole numbers; prove its batches.", section=PROVE),
    Entry(name="verify", help="Hash every byte again, and compare with the record.", section=PROVE),
    Entry(name="audit", help="Walk an artifact back to its origins and judge every edge.", section=PROVE),
    Entry(name="rederive", help="Make an artifact again at its recorded commit; compare.", section=PROVE),
    Entry(name="compare", help="Say where two executions, checkpoints or exports part.", section=PROVE),
    Entry(name="bisect", help="Find the first step at which two histories part.", section=PROVE),
    Entry(name="bundle", help="Write what an audit needs to one file, without weights.", section=PROVE),
    Entry(name="prove", help="Prove that a file belongs to an artifact by its digest.", section=PROVE),
    Entry(name="attest", help="Sign that you made it again, or take another's word.", section=PROVE),
    Entry(name="keys", help="Make signing keys, and say whom to trust with which names.", section=PUBLISH),
    Entry(name="pull", help="Bring a release, checkpoint or tensor here, verified.", section=PUBLISH),
    Entry(name="mirror", help="Copy a repository to a folder or a hub, verified.", section=PUBLISH),
    Entry(name="release", help="Build, check and publish signed releases.", section=PUBLISH),
    Entry(name="hub", help="Serve models and data sets to the Hugging Face client.", section=PUBLISH),
    Entry(name="gc", help="Plan what may be let go, and delete it with --yes.", section=KEEP),
    Entry(name="completion", help="Print the script that completes commands and names.", section=SHELL),
)
