"""Reports say what the records say, as text, and change when any of it changes."""

from dataclasses import replace

import pytest
from fakes.archives import POINTS, ROOT, execution_of, history, product_of, recipe_of

from registry.core.codec import name_of
from registry.core.digests import sha256
from registry.core.history import History
from registry.core.records import Outcome, Output, Product
from registry.core.reports import Told, flat, milliseconds, report_of
from registry.errors import MalformedRecord

RECIPE = recipe_of()
PRODUCT = product_of("rung/d32", name_of(RECIPE), sha256(b"tree"))
EXECUTION = execution_of("rung/d32", 1, name_of(RECIPE), name_of(PRODUCT), Outcome.COMPLETE)
CODE = Output(
    name="tokens/code",
    path="artifacts/tokens/code",
    digest=sha256(b"code"),
    size_bytes=1,
    files=1,
    contents={"tokens": 7},
    locator=None,
)
TOLD = Told(
    execution=EXECUTION,
    recipe=RECIPE,
    product=PRODUCT,
    producers=(PRODUCT, Product(stage="tokens/code", recipe=name_of(RECIPE), outputs=(CODE,))),
)


def report(told=TOLD, points=POINTS):
    return report_of(told, None if points is None else History.of(points))


def test_a_report_holds_the_settings_as_text():
    params = report().params
    assert params["model.width"] == "32"
    assert params["model.layers"] == "[1, 2]"
    assert params["rate"] == "0.001"
    assert params["none"] == "null"
    assert params["determinism.NPROC"] == "2"


def test_a_report_holds_where_the_code_stood_and_what_was_expected():
    tags = report().tags
    assert tags["recipe"] == str(name_of(RECIPE))
    assert tags["product"] == str(name_of(PRODUCT))
    assert tags["commit"] == "c" * 40
    assert tags["tree"] == "d" * 40
    assert tags["dirty"] == "true"
    assert tags["patch"] == str(sha256(b"patch"))
    assert tags["dvc.stage"] == "rung@d32"
    assert tags["dvc.path"] == "artifacts/rung/d32"
    assert tags["dvc.locator"] == "0" * 32 + ".dir"
    assert "3.1" in tags["hypothesis"]
    assert "tokens" in tags["outputs"]
    assert tags["cause"] == ""


def test_a_report_names_inputs_with_the_counts_of_their_producer():
    code, prose = report().datasets
    assert (code.name, code.digest, code.path) == ("tokens/code", sha256(b"code"), "artifacts/tokens/code")
    assert code.profile == {"tokens": 7}
    assert prose.profile == {}


def test_counts_of_other_bytes_under_the_same_name_are_not_taken():
    other = Product(stage="tokens/code", recipe=name_of(RECIPE), outputs=(replace(CODE, digest=sha256(b"other")),))
    code, _ = report(replace(TOLD, producers=(other,))).datasets
    assert code.profile == {}


def test_a_report_lists_kept_checkpoints_with_step_and_root():
    first, last = report().checkpoints
    assert (first.name, first.step, first.root) == ("rung/d32@step-2", 2, ROOT)
    assert (last.step, last.path) == (4, "artifacts/rung/d32/checkpoints/step-4")


@pytest.mark.parametrize(
    ("stage", "model"), [("rung/d32", "rung-d32"), ("hero/0", "hero"), ("hero/1", "hero"), ("shards", None)]
)
def test_rungs_have_a_model_each_and_the_segments_of_the_hero_share_one(stage, model):
    product = product_of(stage, name_of(RECIPE), sha256(b"tree"))
    found = report(replace(TOLD, product=product)).model
    assert (None if found is None else found.name) == model
    if found is not None:
        assert found.product == name_of(product)


def test_a_failed_execution_has_its_cause_and_no_product():
    failed = execution_of("rung/d32", 2, name_of(RECIPE), None, Outcome.FAILED)
    told = report(replace(TOLD, execution=failed, product=None), None)
    assert "MemoryError" in told.tags["cause"]
    assert "no room" in told.note
    assert (told.checkpoints, told.model, told.history, told.points) == ((), None, None, 0)


def test_times_are_those_of_the_execution_and_an_unknown_end_is_the_start():
    assert report().started_milliseconds == milliseconds("2026-01-02T03:04:01.000006Z")
    assert report().ended_milliseconds - report().started_milliseconds == 60_500
    killed = execution_of("rung/d32", 2, name_of(RECIPE), None, Outcome.INTERRUPTED)
    told = report(replace(TOLD, execution=killed, product=None), None)
    assert told.ended_milliseconds == told.started_milliseconds


@pytest.mark.parametrize("time", ["yesterday", "2026-01-02T03:04:01"])
def test_a_time_that_is_none_or_has_no_zone_is_refused(time):
    with pytest.raises(MalformedRecord):
        milliseconds(time)


def test_the_digest_follows_everything_that_is_shown():
    first = report()
    assert first.digest == report().digest
    changed = [
        report(points=POINTS[1:]),
        report(points=None),
        replace(first, note="other"),
        replace(first, params={**first.params, "rate": "0.002"}),
        replace(first, tags={**first.tags, "dirty": "false"}),
        replace(first, datasets=first.datasets[1:]),
        replace(first, checkpoints=first.checkpoints[1:]),
        replace(first, model=None),
        replace(first, ended_milliseconds=0),
    ]
    assert len({one.digest for one in (first, *changed)}) == len(changed) + 1
    assert report().history == history()


def test_an_empty_object_is_a_leaf_of_its_own():
    assert dict(flat({"a": {}, "b": {"c": True}})) == {"a": "{}", "b.c": "true"}
    assert dict(flat({})) == {}
