"""Pulling from a hub, a mirror or a cache: ``looking`` pins and judges, ``files`` and ``tensors`` bring the bytes.

``checkpoints`` finds a kept checkpoint through a release. Nothing gets its final name before it was proven.
"""

from registry.workflows.pull.checkpoints import Kept, Shelf
from registry.workflows.pull.copying import Copier
from registry.workflows.pull.files import Pulled, Puller
from registry.workflows.pull.looking import Judge, Looked, Looker, small
from registry.workflows.pull.mirroring import Mirrored, Mirrorer, Plan
from registry.workflows.pull.tensors import TensorPuller

__all__ = [
    "Copier",
    "Judge",
    "Kept",
    "Looked",
    "Looker",
    "Mirrored",
    "Mirrorer",
    "Plan",
    "Pulled",
    "Puller",
    "Shelf",
    "TensorPuller",
    "small",
]
