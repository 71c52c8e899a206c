"""What the workflows need of the outside, one small protocol per need.

A port speaks of records and digests, never of a system's own types. Each has a fake in ``tests/fakes`` and a contract
suite that runs on the fake and on the real adapter.
"""

from registry.ports.archive import (
    Attempts,
    Bytes,
    Cache,
    Columns,
    Commits,
    CopyFiles,
    HistoryFiles,
    Host,
    Observer,
    Openings,
    Papers,
    Pipeline,
    Places,
    RecordStore,
    Repository,
    Shelves,
    TableStore,
    Tensors,
    TokenStreams,
    Tracker,
)
from registry.ports.hubs import Arriving, Landing, Origin, Outlet, RegisteredModels

__all__ = [
    "Arriving",
    "Attempts",
    "Bytes",
    "Cache",
    "Columns",
    "Commits",
    "CopyFiles",
    "HistoryFiles",
    "Host",
    "Landing",
    "Observer",
    "Openings",
    "Origin",
    "Outlet",
    "Papers",
    "Pipeline",
    "Places",
    "RecordStore",
    "RegisteredModels",
    "Repository",
    "Shelves",
    "TableStore",
    "Tensors",
    "TokenStreams",
    "Tracker",
]
