"""Alterations of an archive, each found on its own edge, and an untouched archive in which nothing is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.shipyard import Shipyard, history

from registry.core import canonical
from registry.core.codec import record_bytes
from registry.core.digests import Digest, FileEntry, git_blob, sha256
from registry.core.forecast import Forecast
from registry.core.records import Environment, Execution, Recipe

OTHER = sha256(b"something else")
Alteration = Callable[[Shipyard], str | None]
CASES: dict[str, tuple[Alteration, set[tuple[str, str]]]] = {}


def alteration(*edges: str) -> Callable[[Alteration], Alteration]:
    """Register an alteration with what must be found: ``edge trouble``. Nothing else may be found.

    An alteration may return the name to audit; it is the handoff otherwise.
    """

    def register(alter: Alteration) -> Alteration:
        CASES[alter.__name__] = alter, {tuple(edge.split(" ")) for edge in edges}
        return alter

    return register


# Bytes.


@alteration("data+bytes altered")
def a_bit_of_a_shard(yard: Shipyard) -> None:
    yard.flip("artifacts/data/code/train-00003.parquet")


@alteration("data+bytes missing")
def a_deleted_shard(yard: Shipyard) -> None:
    (yard.root / "artifacts/data/code/train-00003.parquet").unlink()


@alteration("data+bytes extra")
def a_shard_too_many(yard: Shipyard) -> None:
    yard.write("artifacts/data/code/train-00099.parquet", "more")


@alteration("data+bytes altered")
def a_truncated_shard(yard: Shipyard) -> None:
    yard.write("artifacts/data/prose/train-00000.parquet", yard.read("artifacts/data/prose/train-00000.parquet")[:-1])


@alteration("data+bytes altered", "data+bytes altered")
def two_shards_under_each_others_name(yard: Shipyard) -> None:
    one, other = (f"artifacts/data/code/train-0000{number}.parquet" for number in (1, 3))
    first, second = yard.read(one), yard.read(other)
    yard.write(one, second)
    yard.write(other, first)


@alteration("words+bytes altered")
def a_replaced_tokenizer(yard: Shipyard) -> None:
    yard.write("artifacts/words/vocabulary.json", json.dumps({"z": 0}))


@alteration("words+bytes missing")
def a_deleted_tokenizer(yard: Shipyard) -> None:
    (yard.root / "artifacts/words/vocabulary.json").unlink()
    (yard.root / "artifacts/words").rmdir()


@alteration("stream/code+bytes altered")
def a_bit_of_a_token_cache(yard: Shipyard) -> None:
    yard.flip("artifacts/stream/code/tokens.bin", 3)


@alteration("hero/1@step-4+weights altered", "hero/1@step-4+weights tensor", "hero/1@step-4+weights contents")
def a_bit_of_a_checkpoint(yard: Shipyard) -> None:
    yard.flip("artifacts/hero/1/checkpoints/step-4/state.safetensors")


@alteration("handoff+bytes altered", "handoff+weights tensor", "handoff+weights contents")
def a_bit_of_the_released_weights(yard: Shipyard) -> None:
    yard.flip("artifacts/handoff/model.safetensors")


@alteration("hero/1+transcript altered")
def a_transcript_line(yard: Shipyard) -> None:
    yard.flip("artifacts/hero/1/transcript.jsonl", 20)


@alteration("hero/2+order altered")
def order_facts(yard: Shipyard) -> None:
    path = "artifacts/hero/2/order.json"
    yard.write(path, yard.read(path).replace(b'"seed":7', b'"seed":8'))


@alteration("rung/b+history altered")
def a_point_of_a_history(yard: Shipyard) -> None:
    yard.write("artifacts/rung/b/history.parquet", history([(1, "train/loss", 9.0)]))


@alteration("rung/a+bytes altered")
def an_evaluation(yard: Shipyard) -> None:
    yard.write("artifacts/rung/a/evaluation.json", b'{"macro":{"loss":"1.0"}}\n')


# DVC.


@alteration("data+bytes lock")
def the_lock_names_other_bytes(yard: Shipyard) -> None:
    def change(stages: dict) -> None:
        stages["data"]["outs"][0]["md5"] = "0" * 32 + ".dir"

    yard.declare(change)


@alteration("rung/c+bytes cache")
def a_bit_of_the_cache(yard: Shipyard) -> None:
    data = yard.read("artifacts/rung/c/summary.json")
    held = next(path for path in (yard.root / ".dvc/cache").rglob("*") if path.is_file() and path.read_bytes() == data)
    yard.flip(held.relative_to(yard.root).as_posix())


# Records in place: what git holds differs.


@alteration("manifests+record record", "hero/2+input=hero/1@step-4 missing", "hero/2+parent=hero/1@step-4 parent")
def a_byte_of_an_execution(yard: Shipyard) -> None:
    digest, _, _ = yard.head("hero/1")
    yard.flip(f"manifests/executions/{digest.hex}.json", 40)


@alteration("manifests+record record", "data+record record")
def a_file_table_with_other_rows(yard: Shipyard) -> None:
    _, _, product = yard.head("data")
    entries = [replace(one, digest=OTHER) for one in yard.tables.get_files(product.outputs[0].digest)]
    made = yard.tables.put_files(entries)
    folder = yard.root / "manifests/objects"
    (folder / f"{made.hex}.parquet").replace(folder / f"{product.outputs[0].digest.hex}.parquet")


@alteration("manifests+record record", "data+record missing")
def a_deleted_file_table(yard: Shipyard) -> None:
    _, _, product = yard.head("data")
    (yard.root / f"manifests/objects/{product.outputs[0].digest.hex}.parquet").unlink()


@alteration("manifests+record record", "hero/1+record missing")
def a_deleted_leaf_table(yard: Shipyard) -> None:
    _, _, product = yard.head("hero/1")
    root = Digest.parse(product.output("hero/1@step-2").contents["tensors"])
    (yard.root / f"manifests/tensors/{root.hex}.parquet").unlink()


@alteration("manifests+record record", "hero/1+forecast={forecast} forecast")
def a_forecast_altered_after_the_run(yard: Shipyard) -> None:
    path = f"manifests/forecasts/{sealed(yard).hex}.json"
    yard.write(path, yard.read(path).replace(b'"point":"2', b'"point":"1'))


# Records forged as somebody would who knows their form, and committed.


@alteration("hero/1+forecast={forecast} forecast")
def a_forecast_that_was_never_sealed(yard: Shipyard) -> None:
    (yard.root / f"manifests/forecasts/{sealed(yard).hex}.json").unlink()
    yard.commit()


@alteration(
    "hero/2+forecast={forecast} forecast",
    "hero/1+input=forecast:forecast.json time",
    "hero/2+input=forecast:forecast.json time",
)
def a_forecast_after_the_fact(yard: Shipyard) -> None:
    late = "2026-12-24T00:00:00.000000Z"
    yard.forge_execution("forecast", lambda one: replace(one, started=late, ended=late))
    yard.commit()


@alteration("hero/2+forecast={forecast} forecast")
def a_forecast_committed_after_the_run(yard: Shipyard) -> None:
    """History is written anew: first the hero's records, then the forecast."""
    path = f"manifests/forecasts/{sealed(yard).hex}.json"
    data = yard.read(path)
    (yard.root / path).unlink()
    yard.git("checkout", "-q", "--orphan", "anew")
    yard.commit("All but the forecast")
    yard.write(path, data)
    yard.commit("The forecast")


@alteration("hero/1+forecast={forecast} forecast")
def a_forecast_of_another_run(yard: Shipyard) -> str:
    rewrite_forecast(yard, lambda one: replace(one, predicts="rung/z"))
    return "hero/2"


@alteration("hero/2+forecast={forecast} forecast")
def a_forecast_that_rests_on_another_evaluation(yard: Shipyard) -> str:
    rewrite_forecast(yard, lambda one: replace(one, runs=(replace(one.runs[0], evaluation=OTHER), *one.runs[1:])))
    return "hero/2"


@alteration("hero/2+hypothesis hypothesis")
def a_hypothesis_after_the_fact(yard: Shipyard) -> None:
    yard.forge_execution("hero/2", lambda one: replace(one, hypothesis={"text": "as it came", "loss": "1.7"}))
    yard.commit()


@alteration("hero/2+parent=hero/1@step-2 parent", "hero/2+steps steps", "hero/2+hypothesis hypothesis")
def a_parent_swapped_for_an_earlier_checkpoint(yard: Shipyard) -> None:
    root = yard.head("hero/1")[2].output("hero/1@step-2").contents["tensors"]
    parent = {"name": "hero/1", "step": 2, "root": root}
    yard.forge_execution("hero/2", lambda one: replace(one, parent=parent, hypothesis=None))
    yard.commit()


@alteration("hero/2+parent=hero/1@step-4 parent")
def a_parent_with_another_root(yard: Shipyard) -> None:
    root = yard.head("rung/c")[2].output("rung/c@step-4").contents["tensors"]
    yard.forge_execution("hero/2", lambda one: replace(one, parent={**one.parent, "root": root}))
    yard.commit()


@alteration("hero/2+parent parent", "hero/2+steps steps")
def a_segment_that_began_from_nothing(yard: Shipyard) -> None:
    yard.forge_execution("hero/2", lambda one: replace(one, parent=None))
    yard.commit()


@alteration("hero/2+parent=hero/1@step-2 parent")
def a_stale_head(yard: Shipyard) -> str:
    """Another run really began from the checkpoint before the last one."""
    yard.write("params.yaml", yard.read("params.yaml").replace(b"parent: hero/1@step-4", b"parent: hero/1@step-2"))
    yard.write("dvc.yaml", yard.read("dvc.yaml").replace(b"hero/1/checkpoints/step-4", b"hero/1/checkpoints/step-2"))
    yard.commit()
    yard.run("hero/2")
    yard.commit()
    return "hero/2"


@alteration("hero/1+steps steps", "hero/1+transcript transcript")
def a_segment_that_ends_before_its_last_checkpoint(yard: Shipyard) -> None:
    yard.forge_execution("hero/1", lambda one: replace(one, steps={"first": 0, "reached": 3}))
    yard.commit()


@alteration("hero/2+steps steps", "hero/2+transcript transcript", "hero/2+order order")
def a_gap_between_two_segments(yard: Shipyard) -> None:
    yard.forge_execution("hero/2", lambda one: replace(one, steps={"first": 5, "reached": 6}))
    yard.commit()


@alteration("hero/1+commit commit")
def a_swapped_commit(yard: Shipyard) -> None:
    other = yard.git("rev-list", "--max-parents=0", "HEAD")
    yard.forge_execution("hero/1", lambda one: replace(one, revision=replace(one.revision, commit=other)))
    yard.commit()


@alteration("rung/b+commit missing")
def a_commit_that_nobody_has(yard: Shipyard) -> None:
    yard.forge_execution("rung/b", lambda one: replace(one, revision=replace(one.revision, commit="f" * 40)))
    yard.commit()


@alteration("handoff+code commit")
def swapped_code(yard: Shipyard) -> None:
    def change(recipe: Recipe) -> Recipe:
        return replace(recipe, source=tuple(replace(one, blob=git_blob(b"other")) for one in recipe.source))

    yard.forge_recipe("handoff", change)
    yard.commit()


@alteration("hero/2+config commit", "hero/2+order order")
def swapped_settings(yard: Shipyard) -> None:
    yard.forge_recipe(
        "hero/2", lambda one: replace(one, config={**one.config, "order": {**one.config["order"], "seed": 9}})
    )
    yard.commit()


@alteration("hero/2+lock commit")
def a_swapped_lock(yard: Shipyard) -> None:
    yard.forge_recipe("hero/2", lambda one: replace(one, lock=OTHER))
    yard.commit()


@alteration("hero/2+environment setup")
def another_library_than_asked(yard: Shipyard) -> None:
    yard.forge_recipe("hero/2", lambda one: replace(one, determinism={**one.determinism, "jax": "2.0"}))
    yard.commit()


@alteration("hero/2+environment setup", "hero/2+environment setup")
def another_library_than_locked(yard: Shipyard) -> None:
    environment = Environment(
        python="3.11.7",
        platform={"machine": "x86_64"},
        accelerator={},
        distributions=({"name": "jax", "version": "9.9", "record": None},),
    )
    digest = yard.records.put(Environment.KIND, record_bytes(environment))
    yard.forge_execution("hero/2", lambda one: replace(one, environment=digest))
    yard.commit()


@alteration("hero/1+environment missing")
def an_execution_without_environment(yard: Shipyard) -> None:
    yard.forge_execution("hero/1", lambda one: replace(one, environment=None))
    yard.commit()


@alteration("rung/a+hardware setup")
def another_machine_than_asked(yard: Shipyard) -> None:
    yard.forge_execution("rung/a", lambda one: replace(one, host={**one.host, "machine": "riscv64"}))
    yard.commit()


@alteration("handoff+input=README.md commit")
def a_given_file_that_the_commit_does_not_hold(yard: Shipyard) -> None:
    def change(recipe: Recipe) -> Recipe:
        given, *others = recipe.inputs
        return replace(recipe, inputs=(replace(given, digest=OTHER), *others))

    yard.forge_recipe("handoff", change)
    yard.commit()


@alteration("stream/code+input=words missing")
def an_input_that_no_stage_made(yard: Shipyard) -> None:
    def change(recipe: Recipe) -> Recipe:
        data, words = recipe.inputs
        return replace(recipe, inputs=(data, replace(words, digest=OTHER)))

    yard.forge_recipe("stream/code", change)
    yard.commit()


@alteration("hero/2+recipe contradiction")
def two_products_of_one_recipe(yard: Shipyard) -> None:
    _, execution, product = yard.head("hero/2")
    other = replace(product, outputs=product.outputs[:1])
    made = yard.records.put("product", record_bytes(other))
    attempt = "20261130t110000z-00000000"
    yard.records.put(Execution.KIND, record_bytes(replace(execution, product=made, attempt=attempt)))
    yard.commit()


@alteration(
    "hero/2+parent=hero/1@step-4 time", "hero/2+input=hero/1@step-4 time", "hero/2+input=forecast:forecast.json time",
    "hero/2+input=stream/code time", "hero/2+input=stream/prose time", "hero/2+forecast={forecast} forecast",
)  # fmt: skip
def a_child_before_its_parent(yard: Shipyard) -> None:
    yard.forge_execution("hero/2", lambda one: replace(one, started="2026-01-01T00:00:00.000000Z"))
    yard.commit()


@alteration("hero/1+record reference")
def a_size_that_the_table_does_not_have(yard: Shipyard) -> None:
    def change(product):
        first, *others = product.outputs
        return replace(product, outputs=(replace(first, size_bytes=first.size_bytes + 1), *others))

    yard.forge_product("hero/1", change)
    yard.commit()


@alteration("hero/1+record reference", "hero/1+steps steps", "hero/2+parent=hero/1@step-4 parent")
def a_moved_name(yard: Shipyard) -> None:
    """The earlier checkpoint goes by the name of a later one."""

    def change(product):
        return replace(
            product,
            outputs=tuple(
                replace(one, name="hero/1@step-8") if one.name == "hero/1@step-2" else one for one in product.outputs
            ),
        )

    yard.forge_product("hero/1", change)
    yard.commit()


@alteration("hero/1+record reference", "hero/1@step-2+weights altered", "hero/1@step-2+weights extra")
def a_checkpoint_that_its_stage_does_not_hold(yard: Shipyard) -> None:
    entries = [FileEntry(path="state.safetensors", size_bytes=1, digest=OTHER)]
    tree = yard.tables.put_files(entries)

    def change(product):
        whole, first, last = product.outputs
        return replace(product, outputs=(whole, replace(first, digest=tree, files=1, size_bytes=1), last))

    yard.forge_product("hero/1", change)
    yard.commit()


# Stages that wrote something wrong, faithfully recorded.


@alteration("hero/2+transcript transcript")
def a_transcript_without_its_last_line(yard: Shipyard) -> str:
    path = "artifacts/hero/2/transcript.jsonl"
    yard.rerun_hero(lambda: yard.write(path, b"".join(yard.read(path).splitlines(keepends=True)[:-1])))
    return "hero/2"


@alteration("hero/2+transcript transcript")
def a_transcript_with_a_step_told_twice(yard: Shipyard) -> str:
    path = "artifacts/hero/2/transcript.jsonl"
    yard.rerun_hero(lambda: yard.write(path, yard.read(path).splitlines(keepends=True)[0] + yard.read(path)))
    return "hero/2"


@alteration("hero/2+transcript transcript")
def a_transcript_of_a_step_that_the_parent_told(yard: Shipyard) -> str:
    path, first = "artifacts/hero/2/transcript.jsonl", "artifacts/hero/1/transcript.jsonl"
    yard.rerun_hero(lambda: yard.write(path, yard.read(first).splitlines(keepends=True)[-1] + yard.read(path)))
    return "hero/2"


@alteration("hero/2+transcript missing")
def a_segment_without_transcript(yard: Shipyard) -> str:
    yard.rerun_hero((yard.root / "artifacts/hero/2/transcript.jsonl").unlink)
    return "hero/2"


@alteration("hero/2+order order")
def an_order_with_another_seed(yard: Shipyard) -> str:
    yard.rerun_hero(lambda: rewrite_order(yard, seed=8))
    return "hero/2"


@alteration("hero/2+order order")
def an_order_whose_counts_do_not_fill_a_block(yard: Shipyard) -> str:
    yard.rerun_hero(
        lambda: rewrite_order(yard, phases=[{"first_step": 0, "weights": [3, 1], "sequences_per_block": [6, 1]}])
    )
    return "hero/2"


@alteration("hero/2+order order")
def an_order_that_does_not_go_on_where_the_parent_ended(yard: Shipyard) -> str:
    yard.rerun_hero(lambda: rewrite_order(yard, chain={"after_step": 4, "previous": "0" * 64}))
    return "hero/2"


@alteration("hero/2+order order")
def an_order_without_its_shuffle(yard: Shipyard) -> str:
    yard.rerun_hero(lambda: rewrite_order(yard, shuffle={}))
    return "hero/2"


@alteration("hero/2+order order", "hero/2+order order")
def an_order_with_a_component_that_was_not_given(yard: Shipyard) -> str:
    names = [{"name": name, "sequences": 30} for name in ("code", "verse")]
    yard.rerun_hero(lambda: rewrite_order(yard, components=names))
    return "hero/2"


STAGES = ("hero/1", "hero/2", "handoff")


def sealed(yard: Shipyard) -> Digest:
    return yard.records.digests(Forecast.KIND)[0]


def rewrite_order(yard: Shipyard, **facts: object) -> None:
    path = "artifacts/hero/2/order.json"
    told = canonical.decode(yard.read(path).removesuffix(b"\n"))
    yard.write(path, canonical.encode({**told, **facts}) + b"\n")


def rewrite_forecast(yard: Shipyard, change: Callable[[Forecast], Forecast]) -> None:
    """Another forecast, sealed and given to both segments in time: every stage from it on runs again."""
    old = f"manifests/forecasts/{sealed(yard).hex}.json"

    def tweak() -> None:
        forecast = Forecast.from_json(canonical.decode(yard.read("artifacts/forecast/forecast.json")))
        data = record_bytes(change(forecast))
        yard.write("artifacts/forecast/forecast.json", data)
        yard.records.put(Forecast.KIND, data)
        (yard.root / old).unlink()

    yard.write("params.yaml", yard.read("params.yaml").replace(b"predicts: hero/2}", b"predicts: hero/2, again: 1}"))
    yard.commit()
    yard.run("forecast", tweak)
    yard.commit()
    for stage in STAGES:
        yard.run(stage)
    yard.commit()


def found(stdout: str) -> tuple[dict, set[tuple[str, str]]]:
    audit = json.loads(stdout)
    wrong = {(edge["id"], finding["trouble"]) for edge in audit["edges"] for finding in edge["findings"]}
    return audit, wrong


def test_nothing_is_found_in_an_untouched_archive(built, reckon, monkeypatch):
    monkeypatch.chdir(built.root)
    ended = reckon("audit", "handoff", "--json")
    audit, wrong = found(ended.stdout)
    assert (ended.status, wrong, audit["holds"], audit["verdict"]) == (0, set(), True, "claimed")
    assert {edge["state"] for edge in audit["edges"]} == {"verified", "claimed"}


def test_there_are_enough_alterations():
    assert len(CASES) >= 50


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_alteration_is_found_on_its_edge(name, ship, reckon, monkeypatch):
    alter, expected = CASES[name]
    forecast = sealed(ship)
    name = alter(ship) or "handoff"
    forecast = next(iter(ship.records.digests(Forecast.KIND)), forecast)
    monkeypatch.chdir(ship.root)
    ended = reckon("audit", name, "--json")
    audit, wrong = found(ended.stdout)
    assert wrong == {(edge.format(forecast=forecast.short), trouble) for edge, trouble in expected}
    assert (ended.status, audit["holds"]) == (1, False)
    states = {edge["id"]: edge["state"] for edge in audit["edges"]}
    assert {states[edge] for edge, _ in wrong} <= {"missing", "contradicted"}
