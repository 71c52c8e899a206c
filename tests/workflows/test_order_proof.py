"""The order witness: what was altered is found and named, in the working tree, in the record, and in the run itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support import charted as charts
from support.charted import BATCH, SEED, STEPS

from registry.core import canonical, transcript
from registry.core.findings import Trouble
from registry.core.order import Order
from registry.core.orderfacts import Shuffle

RUN = "rung/d32"
ORDER = f"artifacts/{RUN}/order.json"
LINES = f"artifacts/{RUN}/transcript.jsonl"
ALL = f"1:{STEPS}"


def arranged(facts):
    """The components the other way round, their weights with them."""
    phases = [
        {**one, "weights": one["weights"][::-1], "sequences_per_block": one["sequences_per_block"][::-1]}
        for one in facts["phases"]
    ]
    return {"components": facts["components"][::-1], "phases": phases}


def recounted(facts, **changes):
    """Changed facts with the counts that follow from them."""
    from registry.core.orderfacts import OrderFacts

    changed = {**facts, **changes}
    counts = Order(OrderFacts.read(canonical.encode(changed))).counts
    phases = [{**one, "sequences_per_block": list(own)} for one, own in zip(changed["phases"], counts, strict=True)]
    return {**changes, "phases": phases}


ALTERATIONS = {
    "seed": lambda facts: {"seed": 12},
    "component order": arranged,
    "sequence length": lambda facts: {
        "sequence_tokens": 4,
        "components": [{**one, "sequences": one["sequences"] * 2} for one in facts["components"]],
    },
    "block size": lambda facts: recounted(facts, block_sequences=16),
    "batch size": lambda facts: {"batch_sequences": 8},
    "shuffle block": lambda facts: {"shuffle": {**facts["shuffle"], "io_block_sequences": 8}},
    "shuffle window": lambda facts: {"shuffle": {**facts["shuffle"], "window_blocks": 3}},
    "weights": lambda facts: {
        "phases": [
            {
                **one,
                "weights": facts["phases"][1 - at]["weights"],
                "sequences_per_block": facts["phases"][1 - at]["sequences_per_block"],
            }
            for at, one in enumerate(facts["phases"])
        ]
    },
}


@pytest.fixture
def prove(reckon):
    """The findings of a proof, and that the command's status says the same."""

    def call(run: str = RUN, steps: str = ALL):
        ended = reckon("order", run, "--prove", steps, "--json")
        assert ended.stdout, ended.stderr
        told = json.loads(ended.stdout)
        findings = [finding for one in told["segments"] for finding in one["findings"]]
        assert (ended.status == 0) == told["holds"] == (not findings)
        return told, findings

    return call


def named(findings) -> set[str]:
    return {one["part"] for one in findings if one["trouble"] == Trouble.ORDER}


@pytest.mark.slow
@pytest.mark.parametrize("steps", [ALL, "7:9", str(STEPS)])
@pytest.mark.parametrize("run", [RUN, "hero", "hero/2"])
def test_an_untouched_run_holds(charted, prove, run, steps):
    first = 13 if run == "hero/2" else 1
    told, findings = prove(run, f"{first}:{STEPS}" if steps == ALL or run == "hero/2" else steps)
    assert told["holds"]
    assert not findings
    asked = sum(one["last_step"] - one["first_step"] + 1 for one in told["segments"])
    assert sum(one["agreed"] for one in told["segments"]) == asked > 0


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_alteration_in_the_working_tree_is_named(charted, prove, name):
    facts = json.loads((charted.root / ORDER).read_bytes())
    charted.edit(ORDER, **ALTERATIONS[name](facts))
    _, findings = prove()
    assert name in named(findings)
    assert any(one["trouble"] == Trouble.ALTERED and one["path"] == ORDER for one in findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_alteration_that_was_recorded_is_named(charted, prove, name):
    """The forger recorded the altered facts, and a recipe that asks for them: the transcript still tells."""
    facts = json.loads((charted.root / ORDER).read_bytes())
    changes = ALTERATIONS[name](facts)
    charted.edit(ORDER, **changes)
    genesis = charts.OrderFacts.read((charted.root / ORDER).read_bytes()).genesis
    charted.edit(ORDER, chain={"after_step": 0, "previous": genesis})
    changed = charts.OrderFacts.read((charted.root / ORDER).read_bytes())
    config = {**charts.settings(changed, RUN), "family": {"context_tokens": changed.sequence_tokens}}
    inputs = [f"tokens/{domain}" for domain in charts.DOMAINS]
    charted.record(RUN, inputs, config, steps={"first": 0, "reached": STEPS})
    told, findings = prove()
    assert name in named(findings)
    assert told["segments"][0]["agreed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("seed", {"seed": SEED + 9}),
        ("block size", {"block": 16}),
        ("batch size", {"batch": 2 * BATCH}),
        ("shuffle window", {"shuffle": Shuffle(permutation="feistel", io_block_sequences=4, window_blocks=4)}),
    ],
)
def test_a_run_that_was_fed_by_another_order_is_named(charted, prove, name, changes):
    """From the first step on, and from one in the middle of the run, whose digest before is taken from the record."""
    facts = replace(charts.order_facts(charted), **changes)
    told = zip(facts.phases, Order(facts).counts, strict=True)
    fed = replace(facts, phases=tuple(replace(phase, told=counts) for phase, counts in told))
    charts.train(charted, RUN, range(1, STEPS + 1), keep=(8, 16, 24), fed=fed)
    _, findings = prove(RUN, "5:6")
    assert named(findings) == {name}
    assert findings[0]["recorded"] != findings[0]["found"]


@pytest.mark.slow
def test_facts_that_the_recipe_does_not_ask_for_are_named(charted, prove):
    facts = charts.order_facts(charted)
    config = charts.settings(facts, RUN)
    config["order"] = {**config["order"], "seed": 1, "block_sequences": 4}
    charted.record(RUN, [f"tokens/{domain}" for domain in charts.DOMAINS], config, steps={"first": 0, "reached": STEPS})
    told, findings = prove()
    assert named(findings) == {"seed", "block size"}
    assert told["segments"][0]["agreed"] == STEPS


@pytest.mark.slow
def test_counts_that_do_not_follow_from_the_weights_are_named(charted, prove):
    facts = json.loads((charted.root / ORDER).read_bytes())
    phases = [{**facts["phases"][0], "sequences_per_block": [4, 3, 1]}, facts["phases"][1]]
    charted.edit(ORDER, phases=phases)
    assert "counts after step 0" in named(prove()[1])


@pytest.mark.slow
def test_components_that_do_not_fit_the_tokens_are_named(charted, prove):
    facts = json.loads((charted.root / ORDER).read_bytes())
    charted.edit(ORDER, components=[{**facts["components"][0], "sequences": 99}, *facts["components"][1:]])
    assert "number of sequences of code" in named(prove()[1])


def test_a_swapped_line_is_named_by_its_step(charted, prove):
    lines = (charted.root / LINES).read_bytes().splitlines(keepends=True)
    told = transcript.parse(lines[8]).lines[0]
    other = replace(told, order="0" * 64)
    charted.write(LINES, b"".join([*lines[:8], transcript.line(other), *lines[9:]]))
    proof, findings = prove()
    assert {"step 9"} <= {one["part"] for one in findings}
    assert proof["segments"][0]["agreed"] == 8


@pytest.mark.slow
def test_a_batch_of_its_own_is_told_from_a_run_of_its_own(charted, prove):
    """A forger who chains on from an altered digest leaves one batch that nothing explains."""
    facts = charts.order_facts(charted)
    path = charted.root / LINES
    lines = path.read_bytes().splitlines(keepends=True)
    forged = replace(transcript.parse(lines[8]).lines[0], order="1" * 64)
    rest = charts.lines(charted, facts, range(10, STEPS + 1), forged.order)
    charted.write(LINES, b"".join([*lines[:8], transcript.line(forged), *rest]))
    charted.record(
        RUN,
        [f"tokens/{domain}" for domain in charts.DOMAINS],
        charts.settings(facts, RUN),
        steps={"first": 0, "reached": STEPS},
    )
    _, findings = prove()
    assert [one["part"] for one in findings] == ["step 9"]
    assert "this batch alone" in findings[0]["text"]


@pytest.mark.slow
def test_altered_tokens_are_named_by_their_file(charted, prove):
    (chunk,) = (charted.root / "artifacts/tokens/math/train/input_ids/data/c").glob("0")
    charted.flip(chunk, 40)
    charted.flip(chunk, 400)
    _, findings = prove()
    assert any(one["trouble"] == Trouble.ALTERED and one["path"].endswith("data/c/0") for one in findings)


@pytest.mark.slow
def test_missing_tokens_and_lines_are_findings(charted, prove):
    for chunk in (charted.root / "artifacts/tokens/math/train/input_ids/data").glob("zarr.json"):
        chunk.unlink()
    assert any(one["trouble"] == Trouble.UNREADABLE for one in prove()[1])
    lines = (charted.root / LINES).read_bytes().splitlines(keepends=True)
    charted.write(LINES, b"".join(lines[:5]))
    assert any(one["part"] == "step 6" for one in prove(RUN, "6:8")[1])
    charted.write(LINES, b"nonsense\n")
    assert any(one["trouble"] == Trouble.UNREADABLE for one in prove()[1])


def test_a_segment_must_go_on_where_its_parent_ended(charted, prove):
    path = "artifacts/hero/2/order.json"
    charted.edit(path, chain={"after_step": 12, "previous": "ab" * 32})
    assert "beginning" in named(prove("hero")[1])
    charted.edit(path, chain={"after_step": 11, "previous": "ab" * 32})
    assert "beginning" in named(prove("hero/2", "13:14")[1])


def test_another_generator_is_not_guessed_at(charted, reckon):
    facts = charts.order_facts(charted)
    config = {**charts.settings(facts, RUN), "determinism": {"generator": "rbg"}}
    charted.record(RUN, [f"tokens/{domain}" for domain in charts.DOMAINS], config, steps={"first": 0, "reached": STEPS})
    ended = reckon("batch", RUN, "1")
    assert ended.status == 2
    assert "rbg" in ended.stderr
