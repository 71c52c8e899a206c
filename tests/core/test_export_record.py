"""The record of an export: back from its bytes as it was, and refused where it makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from registry.core import canonical
from registry.core.agreement import Agreed
from registry.core.codec import record_bytes
from registry.core.digests import sha256
from registry.core.export import Architecture, Export, ReadBack, Source
from registry.core.names import Name
from registry.core.tensor_map import Part, Rule, TensorMap
from registry.core.tensors import TensorSpec
from registry.errors import MalformedRecord, Refused

ROOT = sha256(b"root")


def export() -> Export:
    leaf = TensorSpec(name="model/w", dtype="float32", shape=(2, 3))
    target = TensorSpec(name="w", dtype="float32", shape=(2, 3))
    return Export(
        source=Source(name=Name(stage="hero/2", step=7), root=ROOT),
        root=ROOT,
        architecture=Architecture(name="SmallForCausalLM", library="none", version="1"),
        agreed=Agreed(vocabulary=320, positions=16, rotary_base="10000", begin=0, end=1, pad=2),
        tensor_map=TensorMap(leaves=(leaf,), rules=(Rule(target=target, parts=(Part(leaf="model/w"),)),)),
        files={"config.json": sha256(b"{}")},
        weights=("model.safetensors",),
        read_back=ReadBack(readers={"levanter": {"version": "0"}}, heldout={"macro": {"bits": "0"}}, rounded=False),
    )


def test_it_comes_back_from_its_bytes_with_fields_of_a_later_version() -> None:
    value = {**export().to_json(), "later": [1]}
    again = Export.from_json(value)
    assert record_bytes(again) == canonical.encode(value)
    assert (again.kind, again.parameters) == ("export", 6)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("schema", 2, "schema 2"),
        ("kind", "product", "product"),
        ("weights", [], "without weights"),
        ("weights", ["../state.safetensors"], "not a relative path"),
        ("files", {"/config.json": str(ROOT)}, "not a relative path"),
        ("files", {"config.json": "md5"}, "not a digest"),
        ("checkpoint", {"name": "hero/2", "root": str(ROOT)}, "is made from a checkpoint"),
        ("checkpoint", {"name": "hero/2@step-7:checkpoint.json", "root": str(ROOT)}, "is made from a checkpoint"),
        ("checkpoint", {"name": "hero/../x@step-7", "root": str(ROOT)}, "is not a name"),
        ("checkpoint", {"name": "hero/2@step-7", "root": str(ROOT), "tag": "latest"}, "unknown fields: tag"),
        ("read_back", {"readers": {}, "heldout": {}, "rounded": False, "equal": False}, "another loss"),
        ("map", {"leaves": [], "tensors": [], "left_out": [], "more": 0}, "unknown fields: more"),
    ],
)
def test_what_makes_no_sense_is_refused(field: str, value: Any, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        Export.from_json({**export().to_json(), field: value})


def test_a_missing_field_is_named() -> None:
    value = export().to_json()
    del value["root"]
    with pytest.raises(MalformedRecord, match="lacks the field 'root'"):
        Export.from_json(value)
