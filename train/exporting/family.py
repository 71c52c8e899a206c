"""What the stage needs of a model family, and the exporter of each. Refuses a family that has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from registry.core.agreement import Agreed
from registry.core.export import Architecture
from registry.core.tensor_map import TensorMap
from registry.core.tensors import TensorSpec
from registry.errors import Refused
from train.exporting.grug import GrugExport
from train.exporting.mixtral import MixtralExport
from train.family import Family
from train.grug.family import Grug
from train.model import Mixtral


class FamilyExport(Protocol):
    """A family's published form."""

    @property
    def architecture(self) -> Architecture:
        """Who can load it."""
        ...

    def tensor_map(self, leaves: Sequence[TensorSpec], dtype: str) -> TensorMap:
        """The map from a checkpoint with ``leaves`` to tensors of ``dtype``. Raises ``Refused`` for other leaves."""
        ...

    def configuration(self, agreed: Agreed, dtype: str) -> Mapping[str, object]:
        """The content of ``config.json``."""
        ...

    def settled(self, model: Any) -> Any:
        """The trained model as it is published: with everything in force that the next step would apply."""
        ...

    def read(self, folder: Path, axes: Mapping[str, Any]) -> Any:
        """The model as Levanter reads it from ``folder``, sharded by ``axes``.

        Raises ``DoesNotHold`` when the configuration there gives another model than this family's.
        """
        ...


def export_of(family: Family) -> FamilyExport:
    """The exporter of a family."""
    if isinstance(family, Grug):
        return GrugExport(config=family.config)
    if isinstance(family, Mixtral):
        return MixtralExport(config=family.config)
    raise Refused(f"There is no exporter for {type(family).__name__}.", remedy="Write one in train/exporting.")
