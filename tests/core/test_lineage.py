"""Links are found by digest, gaps are told with their reason, and cycles are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from fakes.stores import MemoryTables
from support.executions import ONE

from registry.core.codec import name_of
from registry.core.digests import Algorithm, Digest, FileEntry, sha256
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, Gap, Given, Lineage, Missing, Role, sources
from registry.core.records import Execution, Input, Output, Product, Recipe
from registry.errors import DoesNotHold


def entry(path: str, data: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(data), digest=sha256(data))


@dataclass
class Past:
    """Products and their executions, one after the other."""

    recipes: dict[Digest, Recipe] = field(default_factory=dict)
    products: dict[Digest, Product] = field(default_factory=dict)
    executions: dict[Digest, Execution] = field(default_factory=dict)
    tables: MemoryTables = field(default_factory=MemoryTables)

    def output(self, name: str, files: Sequence[FileEntry], root: Digest | None = None) -> Output:
        contents = {} if root is None else {"step": int(name.rpartition("-")[2]), "tensors": str(root)}
        return Output(
            name=name,
            path=f"artifacts/{name}",
            digest=self.tables.put_files(files),
            size_bytes=sum(one.size_bytes for one in files),
            files=len(files),
            contents=contents,
            locator=None,
        )

    def made(
        self, outputs: Sequence[Output], inputs: Sequence[Input] = (), parent: dict | None = None, claimed: bool = True
    ) -> Digest:
        stage = outputs[0].name
        recipe = Recipe(
            stage=stage,
            command=("make", str(len(self.executions))),
            config={},
            source=(),
            lock=sha256(b"lock"),
            inputs=tuple(inputs),
            determinism={},
        )
        product = Product(stage=stage, recipe=name_of(recipe), outputs=tuple(outputs))
        self.recipes[name_of(recipe)] = recipe
        self.products[name_of(product)] = product
        if claimed:
            self.ran(recipe, product, parent)
        return name_of(product)

    def ran(self, recipe: Recipe, product: Product, parent: dict | None) -> None:
        number = len(self.executions)
        execution = replace(
            ONE,
            stage=recipe.stage,
            attempt=f"20261130t120000z-{number:08x}",
            recipe=name_of(recipe),
            product=name_of(product),
            steps=None,
            parent=parent,
        )
        self.executions[name_of(execution)] = execution

    @property
    def lineage(self) -> Lineage:
        ledger = Ledger(recipes=self.recipes, products=self.products, executions=self.executions)
        return Lineage(ledger, self.tables.get_files)


def given(output: Output, path: str | None = None) -> Input:
    name = output.name if path is None else f"{output.name}:{path}"
    return Input(name=name, path=output.path if path is None else f"{output.path}/{path}", digest=output.digest)


@pytest.fixture
def past() -> Past:
    return Past()


def test_an_input_is_the_output_with_its_digest(past: Past) -> None:
    shards = past.output("shards", [entry("a", b"1")])
    made = past.made([shards])
    rung = past.made([past.output("rung/d32", [entry("s", b"2")])], [given(shards)])
    [link] = past.lineage.links(rung)
    assert (link.role, link.name, link.digest) == (Role.INPUT, "shards", shards.digest)
    assert link.source == Artifact(output=shards, product=made)
    assert sources([link]) == [made]


def test_of_equal_bytes_the_named_output_is_taken(past: Past) -> None:
    files = [entry("a", b"1")]
    east, west = past.output("plot/east", files), past.output("plot/west", files)
    past.made([east])
    made_west = past.made([west])
    past.made([past.output("other", files)])
    leg = past.made([past.output("leg/1", [entry("s", b"2")])], [given(west)])
    [link] = past.lineage.links(leg)
    assert link.source == Artifact(output=west, product=made_west)


def test_a_renamed_output_is_found_by_its_bytes(past: Past) -> None:
    old = past.output("old", [entry("a", b"1")])
    made = past.made([old])
    leg = past.made(
        [past.output("leg/1", [entry("s", b"2")])], [Input(name="new", path="artifacts/new", digest=old.digest)]
    )
    [link] = past.lineage.links(leg)
    assert link.source == Artifact(output=old, product=made)


def test_the_newest_product_of_equal_outputs_is_taken(past: Past) -> None:
    shards = past.output("shards", [entry("a", b"1")])
    past.made([shards])
    newest = past.made([shards])
    leg = past.made([past.output("leg/1", [entry("s", b"2")])], [given(shards)])
    assert sources(past.lineage.links(leg)) == [newest]


def test_a_file_and_a_folder_of_an_output_are_found_in_its_table(past: Past) -> None:
    tokens = past.output("tokens/code", [entry("t.json", b"{}"), entry("train/a", b"1"), entry("train/b", b"2")])
    made = past.made([tokens])
    folder = past.tables.put_files([entry("a", b"1"), entry("b", b"2")])
    inputs = [
        Input(name="tokens/code:t.json", path="artifacts/tokens/code/t.json", digest=sha256(b"{}")),
        Input(name="tokens/code:train", path="artifacts/tokens/code/train", digest=folder),
        Input(name="tokens/code:t.json", path="artifacts/tokens/code/t.json", digest=sha256(b"other")),
    ]
    links = past.lineage.links(past.made([past.output("leg/1", [entry("s", b"2")])], inputs))
    assert [link.source for link in links] == [
        Artifact(output=tokens, product=made, path="t.json"),
        Artifact(output=tokens, product=made, path="train"),
        Missing(gap=Gap.NO_PRODUCT),
    ]


def test_an_output_that_is_one_file_is_found_by_the_digest_of_the_file(past: Past) -> None:
    note = past.output("note", [entry("note.json", b"{}")])
    made = past.made([note])
    leg = past.made(
        [past.output("leg/1", [entry("s", b"2")])],
        [Input(name="note", path="artifacts/note.json", digest=sha256(b"{}"))],
    )
    [link] = past.lineage.links(leg)
    assert link.source == Artifact(output=note, product=made)


def test_a_parent_is_the_checkpoint_with_its_tensors(past: Past) -> None:
    root = sha256(b"root")
    step = past.output("hero/1@step-4", [entry("state", b"4")], root)
    other = past.output("hero/1@step-2", [entry("state", b"2")], sha256(b"two"))
    made = past.made([past.output("hero/1", [entry("s", b"1")]), other, step])
    parent = {"name": "hero/1", "step": 4, "root": str(root)}
    hero = past.made([past.output("hero/2", [entry("s", b"2")])], parent=parent)
    [link] = past.lineage.links(hero)
    assert (link.role, link.name, link.digest) == (Role.PARENT, "hero/1@step-4", root)
    assert link.source == Artifact(output=step, product=made)


@pytest.mark.parametrize(
    ("parent", "gap"),
    [
        ({"name": "hero/1", "step": 4, "root": str(sha256(b"other"))}, Gap.NO_STEP),
        ({"name": "hero/1", "step": 5, "root": str(sha256(b"root"))}, Gap.NO_STEP),
        ({"name": "hero/9", "step": 4, "root": str(sha256(b"root"))}, Gap.NO_STEP),
        ({"name": "hero/1", "step": 4, "root": "none"}, Gap.MALFORMED),
        ({}, Gap.MALFORMED),
    ],
)
def test_a_parent_that_is_not_on_record_is_a_gap(past: Past, parent: dict, gap: Gap) -> None:
    step = past.output("hero/1@step-4", [entry("state", b"4")], sha256(b"root"))
    past.made([past.output("hero/1", [entry("s", b"1")]), step])
    hero = past.made([past.output("hero/2", [entry("s", b"2")])], parent=parent)
    [link] = past.lineage.links(hero)
    assert link.source == Missing(gap=gap)


def test_bytes_of_the_repository_are_given(past: Past) -> None:
    leg = past.made(
        [past.output("leg/1", [entry("s", b"2")])], [Input(name="data/x.csv", path="data/x.csv", digest=sha256(b"x"))]
    )
    [link] = past.lineage.links(leg)
    assert link.source == Given(path="data/x.csv")


def test_a_product_that_no_execution_claims_is_no_source(past: Past) -> None:
    shards = past.output("shards", [entry("a", b"1")])
    past.made([shards], claimed=False)
    leg = past.made([past.output("leg/1", [entry("s", b"2")])], [given(shards)])
    [link] = past.lineage.links(leg)
    assert link.source == Missing(gap=Gap.NO_PRODUCT)


def test_what_cannot_be_read_is_a_gap(past: Past) -> None:
    shards = past.output("shards", [entry("a/b", b"1")])
    past.made([shards])
    inputs = [
        Input(name="shards:a/b", path="artifacts/shards/a/b", digest=sha256(b"1")),
        Input(name="SHARDS", path="artifacts/shards", digest=sha256(b"1")),
    ]
    leg = past.made([past.output("leg/1", [entry("s", b"2")])], inputs)
    del past.tables.files[shards.digest]
    gone, malformed = past.lineage.links(leg)
    assert gone.source == Missing(gap=Gap.NO_PRODUCT)
    assert malformed.source == Missing(gap=Gap.MALFORMED)
    past.recipes.clear()
    assert [link.source for link in past.lineage.links(leg)] == [Missing(gap=Gap.NO_RECIPE)]


def test_upwards_tells_every_product_once(past: Past) -> None:
    shards = past.output("shards", [entry("a", b"1")])
    first = past.made([shards])
    tokens = [past.output(f"tokens/{domain}", [entry("t", domain.encode())]) for domain in ("code", "prose")]
    second = [past.made([one], [given(shards)]) for one in tokens]
    rung = past.made([past.output("rung/d32", [entry("s", b"2")])], [given(one) for one in tokens])
    assert list(past.lineage.upwards(rung)) == [rung, second[0], first, second[1]]
    down = past.lineage.downwards()
    assert [product for product, _ in down[first]] == second
    assert [product for product, _ in down[second[1]]] == [rung]
    assert rung not in down


def test_a_product_that_descends_from_itself_is_refused(past: Past) -> None:
    """Only records that were made up can say so: a recipe's digest binds its inputs, an output's digest nothing."""
    east, west = past.output("east", [entry("a", b"1")]), past.output("west", [entry("b", b"2")])
    first = past.made([east], [given(west)])
    past.made([west], [given(east)])
    with pytest.raises(DoesNotHold, match="descends from itself"):
        past.lineage.upwards(first)


def test_a_chain_of_any_length_is_walked(past: Past) -> None:
    files = [entry("s", b"0")]
    output = past.output("link/0", files)
    past.made([output])
    for number in range(1, 1200):
        following = past.output(f"link/{number}", [entry("s", str(number).encode())])
        last = past.made([following], [given(output)])
        output = following
    assert len(past.lineage.upwards(last)) == 1200


def test_a_digest_names_its_algorithm(past: Past) -> None:
    """A BLAKE3 digest with the hex of a tree is not that tree."""
    shards = past.output("shards", [entry("a", b"1")])
    past.made([shards])
    other = Input(name="shards", path="artifacts/shards", digest=Digest(Algorithm.BLAKE3, shards.digest.hex))
    [link] = past.lineage.links(past.made([past.output("leg/1", [entry("s", b"2")])], [other]))
    assert link.source == Missing(gap=Gap.NO_PRODUCT)
