"""The law of the adopted ladder, fitted again: the bytes that are committed, and what follows without a rung."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.foreign import ROOT, document, shelf_of, thing

from registry.core.codec import record_bytes
from registry.errors import Refused
from train import refit
from train.refit_ladder import ladder


def adopt(told: dict, folder: Path) -> Path:
    """Keep the records of a document as an archive does."""
    folder.mkdir()
    for one in shelf_of(told).things.values():
        for digest, record in one.records:
            (folder / f"{digest.hex}.json").write_bytes(record_bytes(record))
    return folder


@pytest.mark.slow
def test_the_committed_law_and_picture_are_made_again_to_the_byte(tmp_path: Path) -> None:
    found = refit.build(adopt(document(), tmp_path / "records"), tmp_path / "law")
    for name in ("law.json", "law.svg"):
        assert (tmp_path / "law" / name).read_bytes() == (ROOT / "registry/facts" / name).read_bytes()
    cases = {name: {key: one[key] for key in ("median", "low", "high")} for name, one in found["cases"].items()}
    for case in (refit.BOUND, refit.WITHOUT):
        assert float(cases[case]["low"]) < 2.04 < float(cases[case]["high"])
    assert abs(float(cases[refit.BOUND]["median"]) - float(cases[refit.WITHOUT]["median"])) < 0.01
    assert float(cases[refit.AS_FINAL]["low"]) > 2.04
    assert 2.35 < float(found["published_would_need"]) < 2.4745


def test_the_rung_that_was_cut_short_is_no_point() -> None:
    told = ladder(shelf_of(document()))
    assert [name for name, _ in told.finished] == [f"marin/rung/{name}" for name in ("d768", "d1024", "d1536")]
    assert [(name, point.loss) for name, point in told.cut] == [("marin/rung/d2048", 2.4745)]
    assert (told.run, told.published) == ("marin/hero", 2.04)


def test_a_ladder_of_too_few_rungs_or_without_a_forecast_is_refused() -> None:
    few = document()
    del thing(few, "marin/rung/d768")["claims"]["reports"]["final_loss"]
    with pytest.raises(Refused, match="2 points"):
        refit.cases(ladder(shelf_of(few)))
    none = document()
    none["things"] = [one for one in none["things"] if one["role"] != "forecast"]
    with pytest.raises(Refused, match="0 foreign forecasts"):
        ladder(shelf_of(none))


def test_records_that_are_not_those_of_their_names_are_refused(tmp_path: Path) -> None:
    folder = adopt(document(), tmp_path / "records")
    next(folder.iterdir()).write_bytes(b"{}")
    with pytest.raises(Refused, match="bytes of its name"):
        refit.build(folder, tmp_path / "law")
    assert not (tmp_path / "law").exists()


def test_the_committed_law_is_of_the_committed_facts() -> None:
    law = json.loads((ROOT / "registry/facts/law.json").read_text())
    facts = {one["name"]: one["claims"]["reports"] for one in document()["things"] if one["role"] == "rung"}
    assert {one["name"]: one["loss"] for one in law["finished"]} == {
        name: claims["final_loss"]["value"] for name, claims in facts.items() if "final_loss" in claims
    }
