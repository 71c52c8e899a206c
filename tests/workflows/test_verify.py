"""Whatever is done to the bytes is found and named, and an untouched tree holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes.workshop import FakeCache
from support import toy as toys
from support.toy import Toy

from registry.adapters.hashing import Disk
from registry.adapters.pipeline import DvcPipeline
from registry.core import canonical
from registry.core.findings import Finding, Tally, Trouble
from registry.core.ledger import Damage
from registry.core.names import Name
from registry.errors import UnknownName
from registry.workflows.verify import Verifier

STEP = "artifacts/leg/1/checkpoints/step-4"


def verifier(toy: Toy, cache: FakeCache | None = None) -> Verifier:
    return Verifier(
        disk=Disk(toy.root),
        observer=toys.observer(toy.root),
        tables=toy.tables,
        pipeline=DvcPipeline(toy.root),
        cache=cache,
        advance=lambda _: None,
    )


def verified(toy: Toy, name: str | None = None, cache: FakeCache | None = None) -> Tally:
    tally = Tally()
    if name is None:
        verifier(toy, cache).everything(toy.ledger, tally)
    else:
        verifier(toy, cache).name(toy.ledger, Name.parse(name), tally)
    return tally


def said(tally: Tally) -> list[tuple[str, Trouble, str, str]]:
    return [(one.subject, one.trouble, one.path, one.part) for one in tally.findings]


def test_an_untouched_tree_holds(sailed: Toy) -> None:
    tally = verified(sailed)
    assert tally.verdict.holds
    assert tally.findings == []
    assert tally.tensors == 12
    assert tally.size_bytes > 1000
    assert verified(sailed) == tally


def test_nothing_recorded_does_not_hold(toy: Toy) -> None:
    assert not verified(toy).verdict.holds


def test_a_flipped_bit_in_a_file_is_named_with_both_digests(sailed: Toy) -> None:
    sailed.flip("artifacts/chart/east/text.txt", 3)
    [finding] = verified(sailed).findings
    assert (finding.subject, finding.trouble, finding.path) == (
        "chart",
        Trouble.ALTERED,
        "artifacts/chart/east/text.txt",
    )
    assert finding.recorded != finding.found
    assert [one.startswith("sha256:") for one in (finding.recorded, finding.found)] == [True, True]


def test_a_flipped_bit_in_a_checkpoint_is_named_by_file_and_tensor(sailed: Toy) -> None:
    """The last four bytes are the count, the last tensor of the file; the tensor root differs with it."""
    sailed.flip(f"{STEP}/state.safetensors")
    assert said(verified(sailed)) == [
        ("leg/1@step-4", Trouble.ALTERED, f"{STEP}/state.safetensors", ""),
        ("leg/1@step-4", Trouble.TENSOR, STEP, "opt_state/count"),
        ("leg/1@step-4", Trouble.CONTENTS, STEP, "tensors"),
    ]
    assert said(verified(sailed, "leg/1@step-4")) == said(verified(sailed))
    assert verified(sailed, "leg/1@step-2").verdict.holds
    assert not verified(sailed, "leg/1").verdict.holds


def test_a_flipped_bit_in_an_export_is_named_by_file_and_tensor(sailed: Toy) -> None:
    sailed.flip("artifacts/hull/model.safetensors")
    assert said(verified(sailed)) == [
        ("hull", Trouble.ALTERED, "artifacts/hull/model.safetensors", ""),
        ("hull", Trouble.TENSOR, "artifacts/hull", "opt_state/count"),
        ("hull", Trouble.CONTENTS, "artifacts/hull", "tensors"),
    ]


def test_a_damaged_header_cannot_be_opened(sailed: Toy) -> None:
    sailed.flip(f"{STEP}/state.safetensors", 8)
    assert [(trouble, path) for _, trouble, path, _ in said(verified(sailed))] == [
        (Trouble.ALTERED, f"{STEP}/state.safetensors"),
        (Trouble.UNREADABLE, STEP),
    ]


def test_a_truncated_file_is_told_with_its_size(sailed: Toy) -> None:
    path = sailed.root / "artifacts/plot/east/points.bin"
    path.write_bytes(path.read_bytes()[:-1])
    [finding] = verified(sailed, "plot/east").findings
    assert "has 79 bytes; 80 are recorded" in finding.text


def test_a_missing_file_is_named(sailed: Toy) -> None:
    (sailed.root / "artifacts/chart/west/text.txt").unlink()
    findings = said(verified(sailed))
    assert findings[0] == ("chart", Trouble.MISSING, "artifacts/chart/west/text.txt", "")
    assert {trouble for _, trouble, _, _ in findings} == {Trouble.MISSING, Trouble.CONTENTS}


def test_a_missing_checkpoint_is_named(sailed: Toy) -> None:
    shutil.rmtree(sailed.root / STEP)
    subjects = {subject for subject, _, _, _ in said(verified(sailed))}
    assert subjects == {"leg/1@step-4"}
    assert (Trouble.MISSING, f"{STEP}/state.safetensors") in [(t, p) for _, t, p, _ in said(verified(sailed))]


def test_a_missing_output_is_told_once(sailed: Toy) -> None:
    shutil.rmtree(sailed.root / "artifacts/leg/1")
    assert said(verified(sailed)) == [("leg/1", Trouble.MISSING, "artifacts/leg/1", "")]


def test_an_extra_file_is_named(sailed: Toy) -> None:
    sailed.write("artifacts/leg/1/checkpoints/step-4/more.txt", "more\n")
    sailed.write("artifacts/plot/west/more.bin", b"")
    findings = said(verified(sailed))
    assert ("leg/1@step-4", Trouble.EXTRA, f"{STEP}/more.txt", "") in findings
    assert ("plot/west", Trouble.EXTRA, "artifacts/plot/west/more.bin", "") in findings


def test_two_files_that_changed_places_are_both_named(sailed: Toy) -> None:
    east, west = (sailed.root / f"artifacts/chart/{side}/text.txt" for side in ("east", "west"))
    data = east.read_bytes()
    east.write_bytes(west.read_bytes())
    west.write_bytes(data)
    assert [path for _, _, path, _ in said(verified(sailed))] == [
        "artifacts/chart/east/text.txt",
        "artifacts/chart/west/text.txt",
    ]


def test_a_checkpoint_in_the_place_of_another_is_named_tensor_by_tensor(sailed: Toy) -> None:
    shutil.copy(sailed.root / "artifacts/leg/1/checkpoints/step-2/state.safetensors", sailed.root / STEP)
    parts = [part for _, trouble, _, part in said(verified(sailed, "leg/1")) if trouble is Trouble.TENSOR]
    assert parts == ["model/keel", "model/mast"]


def test_an_output_of_one_file_is_verified_as_one(sailed: Toy) -> None:
    assert verified(sailed, "note").verdict.holds
    sailed.flip("artifacts/note.json", 4)
    assert said(verified(sailed, "note")) == [("note", Trouble.ALTERED, "artifacts/note.json", "")]
    (sailed.root / "artifacts/note.json").unlink()
    assert said(verified(sailed, "note")) == [("note", Trouble.MISSING, "artifacts/note.json", "")]


def test_a_folder_in_the_place_of_a_file_is_told(sailed: Toy) -> None:
    (sailed.root / "artifacts/note.json").unlink()
    sailed.write("artifacts/note.json/note.json", "{}")
    assert not verified(sailed, "note").verdict.holds


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
        lambda path: (path.unlink(), path.symlink_to("nowhere")),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["a link out of the tree", "a broken link", "a folder"],
)
def test_what_is_no_file_any_more_is_told(sailed: Toy, spoil: Callable) -> None:
    spoil(sailed.root / "artifacts/chart/east/text.txt")
    tally = verified(sailed)
    assert not tally.verdict.holds
    assert {subject for subject, _, _, _ in said(tally)} == {"chart"}


def test_one_file_of_an_artifact(sailed: Toy) -> None:
    assert verified(sailed, "leg/1:transcript.jsonl").files == 1
    assert verified(sailed, "leg/1:checkpoints/step-4").files == 2
    assert verified(sailed, "leg/1@step-4:state.safetensors").verdict.holds
    assert verified(sailed, "note:note.json").verdict.holds
    sailed.flip(f"{STEP}/state.safetensors")
    assert not verified(sailed, "leg/1@step-4:state.safetensors").verdict.holds
    assert verified(sailed, "leg/1@step-4:checkpoint.json").verdict.holds
    (sailed.root / "artifacts/leg/1/transcript.jsonl").unlink()
    assert said(verified(sailed, "leg/1:transcript.jsonl")) == [
        ("leg/1", Trouble.MISSING, "artifacts/leg/1/transcript.jsonl", "")
    ]
    with pytest.raises(UnknownName, match=r"Did you mean transcript\.jsonl"):
        verified(sailed, "leg/1:transcript.json")


def test_what_was_never_recorded_cannot_be_verified(toy: Toy) -> None:
    with pytest.raises(UnknownName, match=r"no complete execution on record.*dvc repro leg@1"):
        verified(toy, "leg/1")


def test_contents_that_were_recorded_wrongly_are_found_in_intact_bytes(sailed: Toy) -> None:
    """A record may claim a count that its bytes never had."""
    ledger = sailed.ledger
    product = ledger.product_of("chart")
    output = replace(product.outputs[0], contents={"lines": 41})
    tally = Tally()
    verifier(sailed).product(replace(product, outputs=(output,)), tally)
    [finding] = tally.findings
    assert (finding.trouble, finding.part, finding.recorded, finding.found) == (Trouble.CONTENTS, "lines", "41", "40")


def test_a_root_that_was_recorded_wrongly_is_found_in_intact_bytes(sailed: Toy) -> None:
    product = sailed.ledger.product_of("leg/1")
    own, early, late = product.outputs
    swapped = replace(early, contents={**late.contents, "step": 2})
    tally = Tally()
    verifier(sailed).product(replace(product, outputs=(own, swapped, late)), tally)
    assert [(one.trouble, one.part) for one in tally.findings] == [
        (Trouble.TENSOR, "model/keel"),
        (Trouble.TENSOR, "model/mast"),
        (Trouble.CONTENTS, "tensors"),
    ]


def test_without_its_table_an_altered_output_is_told_as_a_whole(sailed: Toy) -> None:
    product = sailed.ledger.product_of("plot/east")
    (sailed.root / f"manifests/objects/{product.outputs[0].digest.hex}.parquet").unlink()
    assert verified(sailed, "plot/east").verdict.holds, "the bytes are the recorded ones"
    sailed.flip("artifacts/plot/east/points.bin")
    [finding] = verified(sailed, "plot/east").findings
    assert "which file cannot be told" in finding.text


def test_a_leaf_table_that_is_gone_still_leaves_the_root(sailed: Toy) -> None:
    for path in (sailed.root / "manifests/tensors").iterdir():
        path.unlink()
    tally = verified(sailed, "leg/1")
    assert tally.verdict.holds
    own, early, late = sailed.ledger.product_of("leg/1").outputs
    wrong = replace(late, contents={**late.contents, "tensors": early.contents["tensors"]})
    tally = Tally()
    verifier(sailed).product(replace(sailed.ledger.product_of("leg/1"), outputs=(own, wrong)), tally)
    assert [(one.trouble, one.part) for one in tally.findings] == [(Trouble.CONTENTS, "tensors")]


def test_a_lock_of_other_bytes_is_a_finding(sailed: Toy) -> None:
    locator = sailed.ledger.product_of("chart").outputs[0].locator
    lock = "schema: '2.0'\nstages:\n  chart:\n    outs:\n    - path: artifacts/chart\n      md5: {}\n"
    sailed.write("dvc.lock", lock.format(locator))
    assert verified(sailed, "chart").verdict.holds
    sailed.write("dvc.lock", lock.format("0" * 32 + ".dir"))
    [finding] = verified(sailed, "chart").findings
    assert (finding.trouble, finding.recorded, finding.found) == (Trouble.LOCK, locator, "0" * 32 + ".dir")


def test_a_lock_that_cannot_be_read_is_a_finding_once(sailed: Toy) -> None:
    sailed.write("dvc.lock", "stages: [")
    [finding] = verified(sailed).findings
    assert (finding.trouble, finding.subject) == (Trouble.LOCK, "dvc.lock")


def test_the_cache_is_compared_with_the_record(sailed: Toy) -> None:
    outputs = [output for stage in toys.STAGES for output in sailed.ledger.product_of(stage).outputs if output.locator]
    cache = FakeCache(held={output.locator: sailed.tables.get_files(output.digest) for output in outputs})
    assert verified(sailed, cache=cache).verdict.holds
    chart = outputs[0]
    east, west = cache.held[chart.locator]
    cache.held[chart.locator] = (replace(east, digest=west.digest),)
    assert [(one.subject, one.trouble, one.part) for one in verified(sailed, "chart", cache).findings] == [
        ("chart", Trouble.CACHE, "east/text.txt"),
        ("chart", Trouble.CACHE, "west/text.txt"),
    ]
    del cache.held[chart.locator]
    [finding] = verified(sailed, "chart", cache).findings
    assert finding.trouble is Trouble.CACHE


def test_damaged_records_count_against_any_name(sailed: Toy) -> None:
    """Nobody can tell which stage a record was of that cannot be read; it may have been the newest of this one."""
    ledger = replace(sailed.ledger, damages=(Damage(kind="execution", name="sha256:x", reason="flipped"),))
    tally = Tally()
    verifier(sailed).name(ledger, Name(stage="chart"), tally)
    assert [one.trouble for one in tally.findings] == [Trouble.RECORD]


def test_a_record_that_points_out_of_the_archive_is_not_followed(sailed: Toy) -> None:
    product = sailed.ledger.product_of("chart")
    for path in ("../../etc", "/etc", "artifacts/../../etc"):
        tally = Tally()
        verifier(sailed).product(replace(product, outputs=(replace(product.outputs[0], path=path),)), tally)
        assert not tally.verdict.holds
        assert [one.trouble for one in tally.findings] == [Trouble.UNREADABLE]


def test_every_byte_of_a_stage_is_hashed_once(sailed: Toy) -> None:
    told: list[int] = []
    tally = Tally()
    replace(verifier(sailed), advance=told.append).product(sailed.ledger.product_of("leg/1"), tally)
    own = sailed.ledger.product_of("leg/1").outputs[0]
    assert (sum(told), tally.size_bytes, tally.files) == (own.size_bytes, own.size_bytes, own.files)


def test_a_finding_has_a_json_form(sailed: Toy) -> None:
    sailed.flip("artifacts/chart/east/text.txt", 3)
    [finding] = verified(sailed).findings
    fields = {name: getattr(finding, name) for name in Finding.__slots__}
    assert canonical.encode({name: None if value is None else str(value) for name, value in fields.items()})
