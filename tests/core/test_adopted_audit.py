"""The audit of the public record finds what it contradicts and what is lost: from the claims, and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.foreign import FACTS, against, audited, changed, document, missing, shelf_of, thing

from registry.core.adopted.by_hand import steps
from registry.core.adopted.document import read_document
from registry.core.adopted.drawing import DEEPEST, Limb, draw
from registry.core.adopted.judging import audit
from registry.core.adopted.remaking import reasons
from registry.core.audit.edges import State
from registry.core.names import Name
from registry.errors import MalformedRecord, Refused, UnknownName

HERO, DATA = "marin/hero", "marin/data/harrier-mix-2026.08.18"
CONTRADICTED = {
    "marin/hero+figure=steps",
    "marin/hero+figure=tokens",
    "marin/hero+figure=gpus",
    "marin/hero+figure=checkpoint_objects",
    f"{DATA}+figure=store",
    f"{DATA}+figure=store_tokens",
    "marin/rung/d2048+figure=tokens",
}
LOST = {
    "marin/hero/2+parent=marin/hero/1@step-58014",
    "marin/hero/3+parent=marin/hero/2@step-81716",
    "marin/hero/5+parent=marin/hero/4@step-108778",
    "marin/hero/6+parent=marin/hero/5@step-121638",
    "marin/hero/7+parent=marin/hero/6@step-146139",
    "marin/hero/trial-81k+parent=marin/hero/2@step-81716",
    "marin/rung/d2048+steps=ended",
    "marin/forecast+forecast=marin/rung/d2048",
    *(f"marin/rung/{rung}+weights" for rung in ("d768", "d1024", "d1536", "d2048")),
    "marin/hero+weights",
}


def test_everything_that_the_public_record_contradicts_and_lost_is_found() -> None:
    found = audited(document())
    assert against(found) == CONTRADICTED
    assert missing(found) == LOST
    assert found.verdict is State.CONTRADICTED
    assert not found.holds
    sides = {(finding.recorded, finding.found) for finding in found.findings if finding.part == "steps"}
    assert [("390251" in one, "390139 (issue-8435)" in other) for one, other in sides] == [(True, True)]


def test_data_that_may_not_be_published_is_withheld_and_what_follows_is_verified() -> None:
    states = {edge.id: edge.state for edge in audited(document()).edges}
    assert states[f"marin/hero+input={DATA}"] is State.WITHHELD
    assert states["marin/rung/d768+figure=derived"] is State.VERIFIED
    assert states["marin/hero/4+parent=marin/hero/3@step-108000"] is State.CLAIMED
    assert states["marin/hero+steps=segments"] is State.CLAIMED


def test_no_finding_is_written_down() -> None:
    """The document has no word for one: every value stands under a source, and unknown fields are refused."""
    told = document()
    assert not any(word in FACTS.read_text().lower() for word in ("contradict", "finding", "disagree"))
    told["things"][0]["findings"] = []
    with pytest.raises(MalformedRecord, match="findings"):
        read_document(json.dumps(told).encode(), "")


def without(name: str, source: str, quantity: str, value: str | None = None) -> Callable[[dict[str, Any]], None]:
    """Take one claim out of the document; ``value`` picks one of several that the source tells."""

    def take(told: dict[str, Any]) -> None:
        claims = thing(told, name)["claims"][source]
        if value is None:
            del claims[quantity]
        else:
            claims[quantity] = [one for one in claims[quantity] if one["value"] != value]

    return take


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (without(HERO, "issue-8435", "steps"), "marin/hero+figure=steps"),
        (without(HERO, "statements", "tokens"), "marin/hero+figure=tokens"),
        (without(HERO, "statements", "gpus"), "marin/hero+figure=gpus"),
        (without(HERO, "issue-8890", "checkpoint_objects"), "marin/hero+figure=checkpoint_objects"),
        (without(HERO, "reports", "checkpoint_objects"), "marin/hero+figure=checkpoint_objects"),
        (without(DATA, "mixture-log", "store"), f"{DATA}+figure=store"),
        (without(DATA, "reports", "store"), f"{DATA}+figure=store"),
        (without(DATA, "reports", "store_tokens", "23.01e12"), f"{DATA}+figure=store_tokens"),
        (without("marin/rung/d2048", "reports", "trained_tokens"), "marin/rung/d2048+figure=tokens"),
        (without("marin/rung/d2048", "code", "tokens"), "marin/rung/d2048+figure=tokens"),
    ],
)
def test_without_one_of_two_claims_its_finding_goes_and_no_other(
    change: Callable[[dict[str, Any]], None], gone: str
) -> None:
    assert against(changed(change)) == CONTRADICTED - {gone}


def put(name: str, source: str, **values: object) -> Callable[[dict[str, Any]], None]:
    return lambda told: thing(told, name)["claims"][source].update(values)


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (put(HERO, "issue-8435", steps="390251"), "marin/hero+figure=steps"),
        (put(HERO, "statements", tokens="18.0e12"), "marin/hero+figure=tokens"),
        (put(HERO, "statements", gpus=704), "marin/hero+figure=gpus"),
        (put(HERO, "issue-8890", checkpoint_objects="26795"), "marin/hero+figure=checkpoint_objects"),
        (put(DATA, "reports", store="store_4d2e363d"), f"{DATA}+figure=store"),
        (put(DATA, "reports", store_tokens=["23.11e12", "23.106e12"]), f"{DATA}+figure=store_tokens"),
    ],
)
def test_two_claims_that_are_made_to_agree_are_no_finding(change: Callable[[dict[str, Any]], None], gone: str) -> None:
    """The tokens of d2048 are not among them: each side is held against its steps too, which do not agree either."""
    assert against(changed(change)) == CONTRADICTED - {gone}


@pytest.mark.parametrize(
    ("change", "new"),
    [
        (put("marin/rung/d768", "launcher", steps="11421"), {"marin/rung/d768+figure=steps"}),
        (put("marin/rung/d1024", "code", muonh_lr="0.01442"), {"marin/rung/d1024+figure=muonh_lr"}),
        (put("marin/rung/d1536", "code", gpus=385), {"marin/rung/d1536+figure=gpus"}),
        (put("marin/rung/d1536", "code", label="11.5B-A482M"), {"marin/rung/d1536+figure=label"}),
        (put("marin/rung/d1024", "reports", final_loss="3.1"), {"marin/forecast+forecast=order"}),
        (put("marin", "code", routed_experts=256), {"marin+figure=routed_experts"}),
        (put("marin", "code", expert_width="hidden/4"), {"marin+figure=expert_width"}),
        (put("marin/rung/d2048", "reports", last_step="15000"), {"marin/rung/d2048+figure=trained_tokens"}),
        (put("marin/rung/d2048", "reports", last_step="30000"),
         {"marin/rung/d2048+figure=trained_tokens", "marin/rung/d2048+figure=last_step"}),
        (put(HERO, "issue-8435", reached_step="500000"), {"marin/hero+figure=reached_step"}),
        (put("marin/hero/3", "issue-8506", last_step=107999), {"marin/hero+steps=segments"}),
        (put("marin/hero/3", "issue-8506", last_step=108500), {"marin/hero+steps=segments"}),
        (put("marin/hero/1", "issue-8506", first_step=5), {"marin/hero+steps=segments"}),
        (put(HERO, "reports", permanent_checkpoint_every=7000),
         {"marin/hero/4+parent=marin/hero/3@step-108000"}),
        (put("marin/rung/d768", "code", kv_heads="5/1"), {"marin/rung/d768+figure=shape"}),
    ],
)  # fmt: skip
def test_another_figure_that_is_changed_gives_a_finding_of_its_own(
    change: Callable[[dict[str, Any]], None], new: set[str]
) -> None:
    assert against(changed(change)) - CONTRADICTED == new


def test_a_parent_that_is_not_the_segment_before_is_found() -> None:
    def change(told: dict[str, Any]) -> None:
        thing(told, "marin/hero/5")["links"][0]["step"] = 108777

    assert "marin/hero+steps=segments" in against(changed(change))


def test_a_told_digest_of_weights_is_claimed_and_no_other_digest_counts() -> None:
    edge = "marin/rung/d768+weights"
    assert edge in missing(changed(put("marin/rung/d768", "reports", history_digest="sha256:" + "0" * 64)))
    assert edge not in missing(changed(put("marin/rung/d768", "reports", tensor_root="sha256:" + "0" * 64)))


def test_a_kept_handoff_is_not_lost() -> None:
    def change(told: dict[str, Any]) -> None:
        del thing(told, "marin/hero/2")["links"][0]["absence"]
        thing(told, HERO)["claims"]["reports"]["permanent_checkpoint_at"] = [55000, 58014]

    assert LOST - missing(changed(change)) == {"marin/hero/2+parent=marin/hero/1@step-58014"}


def test_two_documents_about_one_thing_can_contradict_each_other() -> None:
    other = document()
    other["id"], other["things"] = "somebody-else", [thing(other, "marin/rung/d768")]
    other["things"][0]["claims"]["reports"]["final_loss"]["value"] = "3.0254"
    shelf = shelf_of(document(), other)
    found = audit(shelf.thing(Name.parse("marin/rung/d768")), shelf)
    assert "marin/rung/d768+figure=final_loss" in against(found)


def test_the_newest_adoption_of_a_document_counts() -> None:
    corrected = document()
    thing(corrected, HERO)["claims"]["issue-8435"]["steps"] = "390251"
    for order in ([document(), corrected], [corrected, document()]):
        times = ("2026-11-30T19:00:00.000000Z", "2026-11-30T20:00:00.000000Z")
        newest = order[1]
        shelf = shelf_of(*order, times=times)
        found = audit(shelf.thing(Name.parse(HERO)), shelf)
        assert ("marin/hero+figure=steps" in against(found)) == (newest is not corrected)


def test_a_damaged_record_is_a_finding_and_hides_no_other() -> None:
    whole = shelf_of(document())
    records = [pair for one in whole.things.values() for pair in one.records]
    from registry.core.adopted.shelf import Shelf
    from registry.core.codec import record_bytes

    raw = [(digest, record_bytes(record)) for digest, record in records]
    damaged = Shelf.build([(raw[0][0], b"{}"), *raw[1:]])
    assert len(damaged.damages) == 1
    found = audit(damaged.thing(Name.parse(HERO)), damaged)
    assert "manifests/adopted+record" in against(found)
    assert against(found) >= CONTRADICTED


def lines(limb: Limb) -> list[Limb]:
    return [limb, *(one for inner in limb.limbs for one in lines(inner))]


def test_the_tree_follows_the_segments_and_says_what_is_lost() -> None:
    shelf = shelf_of(document())
    drawn = {f"{one.bond} {one.name}": one for one in lines(draw(shelf.thing(Name.parse(HERO)), shelf))}
    assert [key for key in drawn if key.startswith(("part", "parent marin/hero/"))][:7] == [
        "part marin/hero/7",
        *(f"parent marin/hero/{n}@step-{step}" for n, step in
          ((6, 146139), (5, 121638), (4, 108778), (3, 108000), (2, 81716), (1, 58014))),
    ]  # fmt: skip
    assert "quota clean-up" in drawn["parent marin/hero/2@step-81716"].note
    assert drawn[f"input {DATA}"].state is State.WITHHELD
    assert drawn["rest marin/rung/d2048"].state is State.MISSING


def test_what_cannot_be_made_again_is_said_with_its_reasons() -> None:
    shelf = shelf_of(document())
    second = " ".join(reasons(shelf.things["marin/hero/2"], shelf))
    for part in ("step-58014 is lost", "withheld", "10 of 40 digits", "nobody could tell a repetition"):
        assert part in second
    assert "lost" not in " ".join(reasons(shelf.things["marin/hero/4"], shelf))
    assert reasons(shelf.things[DATA], shelf) == ()


def test_every_edge_can_be_checked_by_hand() -> None:
    shelf = shelf_of(document())
    found = audit(shelf.thing(Name.parse(HERO)), shelf)
    assert all(list(steps(edge, shelf)) for edge in found.edges)


def test_a_checkpoint_of_theirs_is_not_here() -> None:
    with pytest.raises(UnknownName, match="claims"):
        shelf_of(document()).thing(Name.parse("marin/hero/1@step-58014"))


def test_links_that_lead_in_circles_end() -> None:
    told = document()
    thing(told, "marin/hero/1")["links"] = [{"bond": "parent", "name": "marin/hero/7", "step": 0, "source": "reports"}]
    shelf = shelf_of(told)
    assert lines(draw(shelf.thing(Name.parse(HERO)), shelf))
    assert audit(shelf.thing(Name.parse(HERO)), shelf).edges


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(schema=2),
        lambda told: told.update(more=1),
        lambda told: told["things"].append(told["things"][0]),
        lambda told: told["things"][0].update(role="planet"),
        lambda told: told["things"][0].update(name="../marin"),
        lambda told: told["things"][0].update(name="marin@step-1"),
        lambda told: told["things"][0]["claims"].update(nowhere={"steps": 1}),
        lambda told: told["things"][0]["claims"]["code"].update(steps=True),
        lambda told: told["things"][0]["claims"]["code"].update(steps={"value": "1", "sure": True}),
        lambda told: told["things"][0]["links"].append({"bond": "friend", "name": "x", "source": "code"}),
        lambda told: told["sources"].update(code="a\x1b[2Jb"),
    ],
)
def test_a_document_that_is_not_one_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    told = document()
    change(told)
    with pytest.raises(Refused):
        shelf_of(told)


@pytest.mark.slow
def test_a_chain_without_end_is_cut_and_says_so() -> None:
    told = document()
    told["things"] = [
        {
            "name": f"x/s{n}",
            "role": "segment",
            "ended": "unknown",
            "claims": {"code": {"first_step": n}},
            "links": [{"bond": "parent", "name": f"x/s{n - 1}", "step": n, "source": "code"}] if n else [],
        }
        for n in range(600)
    ]
    shelf = shelf_of(told)
    drawn = lines(draw(shelf.things["x/s599"], shelf))
    assert len(drawn) == DEEPEST + 1
    assert drawn[-1].note.endswith("deeper")
    assert len(audit(shelf.things["x/s599"], shelf).edges) > 600


def test_a_family_leads_to_its_members() -> None:
    shelf = shelf_of(document())
    assert against(audit(shelf.things["marin"], shelf)) == CONTRADICTED
    assert {limb.name for limb in draw(shelf.things["marin"], shelf).limbs} >= {HERO, "marin/rung/d768"}


def test_more_values_of_one_quantity_than_anybody_tells_are_refused() -> None:
    told = document()
    told["things"][0]["claims"]["code"]["seed"] = [str(n) for n in range(200)]
    with pytest.raises(MalformedRecord, match="seed"):
        shelf_of(told)


def test_a_third_value_is_a_finding_of_its_own_on_the_same_edge() -> None:
    found = changed(put(HERO, "code", steps=390252))
    assert against(found) == CONTRADICTED
    assert [finding.found for finding in found.findings if finding.part == "steps"] == [
        "390252 (code)",
        "390139 (issue-8435)",
    ]
    assert len({edge.id for edge in found.edges}) == len(found.edges)


def test_a_forecast_stands_beside_the_end_of_its_run_once_that_is_told() -> None:
    edge = {one.id: one for one in audited(document()).edges}["marin/forecast+forecast=marin/hero"]
    assert edge.reason == "predicted is 2.04; it is told as running, unscored"
    ended = changed(put(HERO, "reports", final_loss="2.06"))
    assert {one.id: one for one in ended.edges}[edge.id].reason == "predicted is 2.04; it ended at 2.06"
