"""Release statements and records, the template of a card, pieces of Markdown, materials, secrets, and the curve."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from registry.adapters.cards import read_template, write_card
from registry.core import canonical, card, markdown, provenance, transcript
from registry.core.codec import record_bytes
from registry.core.curve import Marked, draw
from registry.core.digests import sha256
from registry.core.materials import materials
from registry.core.names import Name
from registry.core.records import Recipe
from registry.core.release import Identity, Release, Releases, ReleaseStatement, Terms, Weights, parse_reference
from registry.core.secrecy import secrets_in
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, Refused

IDENTITY = Identity(name="pocket", version="1.0.0", repository="lab/pocket")
WEIGHTS = Weights(checkpoint=Name(stage="hero/2", step=846), checkpoint_root=sha256(b"c"), root=sha256(b"w"))
TERMS = Terms(
    identity=IDENTITY,
    parent=None,
    artifact="export",
    product=sha256(b"product"),
    weights=WEIGHTS,
    commit="c" * 40,
    time="2026-11-30T12:00:00.000000Z",
    accepted_taint=None,
)
STATEMENT = ReleaseStatement(terms=TERMS, files={"README.md": sha256(b"card"), "a/b.json": sha256(b"b")})
RELEASE = Release(terms=TERMS, release=STATEMENT.digest, files=sha256(b"tree"), key="e" * 64)
BODY = "\n".join(f"<!-- facts: {name} -->" for name in card.FACTS)


class TestStatement:
    """The signed statement: one spelling, and nothing outside of the folder."""

    def test_it_is_read_as_it_is_written(self) -> None:
        assert ReleaseStatement.parse(STATEMENT.payload) == STATEMENT
        named = json.loads(STATEMENT.payload)["predicate"]
        assert (named["name"], named["version"], named["repository"]) == ("pocket", "1.0.0", "lab/pocket")

    def test_another_name_is_another_release(self) -> None:
        renamed = replace(TERMS, identity=replace(IDENTITY, version="1.0.1"))
        assert replace(STATEMENT, terms=renamed).digest != STATEMENT.digest

    @pytest.mark.parametrize(
        "change",
        [
            {"_type": "https://in-toto.io/Statement/v0.1"},
            {"predicateType": "urn:deadreckon:release:v2"},
            {"subject": []},
            {"subject": [{"name": "../x", "digest": {"sha256": "0" * 64}}]},
            {"subject": [{"name": "model.sig", "digest": {"sha256": "0" * 64}}]},
            {"subject": [{"name": "x", "digest": {"sha256": "0" * 63}}]},
            {"subject": [{"name": "x", "digest": {"sha256": "0" * 64, "md5": "0" * 32}}]},
            {"subject": 2 * [{"name": "x", "digest": {"sha256": "0" * 64}}]},
            {"more": 1},
        ],
    )
    def test_another_form_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(ReckonError):
            ReleaseStatement.parse(canonical.encode({**json.loads(STATEMENT.payload), **change}))

    @pytest.mark.parametrize(
        "change",
        [
            {"schema": 2},
            {"version": "1.0"},
            {"version": "01.0.0"},
            {"name": "Pocket"},
            {"repository": "pocket"},
            {"commit": "HEAD"},
            {"time": "yesterday"},
            {"accepted_taint": "a\nb"},
            {"checkpoint": {"name": "hero/2@step-846", "step": 845, "root": str(sha256(b"c"))}},
            {"checkpoint": {"name": "hero/2", "step": 0, "root": str(sha256(b"c"))}},
        ],
    )
    def test_other_terms_are_refused(self, change: dict[str, Any]) -> None:
        told = json.loads(STATEMENT.payload)
        with pytest.raises(ReckonError):
            ReleaseStatement.parse(canonical.encode({**told, "predicate": {**told["predicate"], **change}}))

    def test_any_altered_byte_is_refused_or_another_release(self) -> None:
        for at in range(len(STATEMENT.payload)):
            data = bytearray(STATEMENT.payload)
            data[at] ^= 1 << at % 8
            try:
                assert ReleaseStatement.parse(bytes(data)).digest != STATEMENT.digest
            except ReckonError:
                continue

    def test_records_are_found_by_name_and_version(self) -> None:
        later = replace(RELEASE, terms=replace(TERMS, identity=replace(IDENTITY, version="1.10.0")))
        between = replace(RELEASE, terms=replace(TERMS, identity=replace(IDENTITY, version="1.9.0")))
        raw = [(sha256(record_bytes(one)), record_bytes(one)) for one in (later, RELEASE, between)]
        known = Releases.build([*raw, (sha256(b"x"), b"{}")])
        assert len(known.damages) == 1
        assert known.find(*parse_reference("pocket")) == later
        assert known.find(*parse_reference("pocket@1.9.0")) == between
        assert known.find("pocket", "3.0.0") is None
        with pytest.raises(Refused):
            parse_reference("pocket@latest")


class TestCard:
    """Templates that people write."""

    def test_prose_stays_and_facts_are_put_in(self) -> None:
        template = read_template(f"---\nlicense: mit\n---\nOur words.\n{BODY}\n".encode())
        facts = {name: f"FACT {name}" for name in card.FACTS}
        data = write_card(card.head(template, {"library_name": "x"}), card.body(template, facts))
        assert data.startswith(b"---\nlicense: mit\nlibrary_name: x\n---\nOur words.\n")
        assert all(f"FACT {name}\n".encode() in data for name in card.FACTS)

    @pytest.mark.parametrize(
        ("head", "body", "complaint"),
        [
            ("license: mit", BODY.replace("<!-- facts: data -->", ""), "leaves out: data"),
            ("license: mit", f"{BODY}\n<!-- facts: weather -->", "unknown facts: weather"),
            ("license: mit", f"{BODY}\n<!-- facts: data -->", "repeats: data"),
            ("tags: [a]", BODY, "no licence"),
            ("license: mit\nmodel-index: []", BODY, "only records may: model-index"),
            ("license: mit\nbase_model: lab/x", BODY, "stated together"),
            ("license: mit\nbase_model: lab/x\nbase_model_relation: child", BODY, "is one of"),
            ("license: mit\nnew_version: nowhere", BODY, "is not a repository"),
            ("license: mit\ndatasets: [1]", BODY, "are texts"),
            ("a: &x [1]\nlicense: mit\nb: *x", BODY, "aliases"),
            ("license: !!python/object:os.system x", BODY, "no YAML"),
            ("- a", BODY, "no list of names"),
        ],
    )
    def test_a_template_that_will_not_do(self, head: str, body: str, complaint: str) -> None:
        with pytest.raises(Refused, match=complaint):
            read_template(f"---\n{head}\n---\n{body}\n".encode())

    def test_lineage_for_the_hub_is_taken(self) -> None:
        head = "license: mit\nbase_model: lab/x\nbase_model_relation: finetune\ndatasets: [lab/d]\nnew_version: lab/y"
        assert read_template(f"---\n{head}\n---\n{BODY}\n".encode()).metadata["new_version"] == "lab/y"

    def test_the_archives_own_template_will_do(self, root: Any) -> None:
        assert read_template((root / "card.md").read_bytes()).metadata["license"] == "apache-2.0"

    @pytest.mark.parametrize("text", ["a | b", "<script>", "[x](y)", "*x*\n# y", "`x`", "\x1b[2J"])
    def test_words_of_records_cannot_be_markup(self, text: str) -> None:
        row = markdown.table(("a",), [(markdown.plain(text),)]).splitlines()[2]
        assert len(markdown.table(("a",), [(markdown.plain(text),)]).splitlines()) == 3
        assert row.replace("\\|", "").count("|") == 2
        assert "<" not in row
        assert "\x1b" not in row


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("a Hugging Face token", "hf_" + "a" * 34),
        ("a GitHub token", "ghp_" + "a" * 36),
        ("an AWS key", "AKIA" + "A" * 16),
        ("a private key", "-----BEGIN " + "PRIVATE KEY-----"),
        ("a private key", "-----BEGIN EC " + "PRIVATE KEY-----"),
        ("a W&B key", "WANDB_API_KEY=" + "0a" * 20),
        ("an address with a password", "postgres://user:" + "pass@host"),
        ("an OpenAI or Anthropic key", "sk-" + "b" * 48),
    ],
)
def test_a_secret_is_found_in_any_bytes_and_at_any_border(kind: str, secret: str) -> None:
    data = b"\x00\xff" * 40 + secret.encode() + b"\x00" * 9
    for cut in range(70, len(data), 7):
        [found] = secrets_in([data[:cut], data[cut:]])
        assert (found.kind, data[found.at : found.at + 3]) == (kind, secret.encode()[:3])


@pytest.mark.parametrize(
    "text", ["https://example.org/@x", "hf_short", "skip-" + "a" * 60, "a://b:c d@e", "-----BEGIN CERTIFICATE-----"]
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert not list(secrets_in([text.encode()]))


def test_materials_are_found_anywhere_in_the_settings() -> None:
    one = {"name": "a", "version": "1", "sha256": "0" * 64, "licence": "MIT", "domain": "code"}
    recipe = Recipe(
        stage="corpus",
        command=(),
        config={"corpus": {"wheels": [one, {**one, "name": "b", "licence": "say what"}, {"name": "c"}]}},
        source=(),
        lock=sha256(b""),
        inputs=(),
        determinism={},
    )
    assert [(found.name, found.licence) for found in materials(recipe)] == [("a", "MIT"), ("b", None)]


def test_a_chain_with_a_gap_is_told() -> None:
    made = {"subject": [{"name": "x", "digest": {"reckonTree": "1"}}], "predicate": {}}
    given = {"name": "x", "digest": {"reckonTree": "1"}}

    def using(*dependencies: object) -> dict[str, Any]:
        return {"subject": [], "predicate": {"buildDefinition": {"resolvedDependencies": list(dependencies)}}}

    assert provenance.broken([made, using(given, {"uri": "git+repository", "digest": {}, "name": "repository"})]) == ()
    for other in ({**given, "name": "y"}, {**given, "digest": {"reckonTree": "2"}}, {"name": "x"}):
        assert len(provenance.broken([made, using(other)])) == 1


class TestCurve:
    """The picture of a run."""

    @staticmethod
    def told(count: int) -> transcript.Transcript:
        lines = (
            transcript.Line(
                step=step, loss=transcript.bits(9.0 / step), gradient_norm=0, order="0" * 64, state="0" * 16
            )
            for step in range(1, count + 1)
        )
        return transcript.Transcript(lines=tuple(lines))

    def test_equal_runs_give_equal_bytes_and_text_is_escaped(self) -> None:
        marked = [Marked(first=3, last=5, text="<b>a spike</b>")]
        picture = draw("a < b", self.told(2000), [1000, 2000], marked)
        assert picture == draw("a < b", self.told(2000), [1000, 2000], marked)
        assert b"a &lt; b" in picture
        assert b"<b>" not in picture
        assert picture.count(b'class="s"') == 1
        assert len(picture) < 20_000

    def test_a_run_of_one_step_has_none(self) -> None:
        with pytest.raises(DoesNotHold):
            draw("x", self.told(1), [1], [])

    @pytest.mark.parametrize("loss", [0.0, 1e30, -3e38, 1e-45])
    def test_a_run_that_learns_nothing_has_a_curve(self, loss: float) -> None:
        told = self.told(10)
        flat = tuple(replace(line, loss=transcript.bits(loss)) for line in told.lines)
        assert b"nan" not in draw("x", replace(told, lines=flat), [10], [])

    def test_losses_that_are_no_numbers_leave_a_gap(self) -> None:
        told = self.told(10)
        lost = replace(told, lines=(*told.lines[:4], replace(told.lines[4], loss=0x7FC00000), *told.lines[5:]))
        assert b"nan" not in draw("x", lost, [10], [])


def test_a_release_cannot_be_of_what_is_no_checkpoint() -> None:
    with pytest.raises(MalformedRecord):
        Weights(checkpoint=Name(stage="hero/2"), checkpoint_root=sha256(b"c"), root=sha256(b"w"))
