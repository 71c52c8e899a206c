"""Names of checkpoint branches, and records of what was published and what was taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.core import notices
from registry.core.branches import CheckpointBranch, staging
from registry.core.codec import name_of, record_bytes
from registry.core.digests import Digest, sha256
from registry.core.dsse import IN_TOTO, Envelope, Signature
from registry.core.names import Name
from registry.core.notices import Change, Notice
from registry.core.publications import Place, Publication, Publications, Subject
from registry.core.release import Identity
from registry.errors import DoesNotHold, MalformedRecord, ReckonError, Refused

PLACE = Place(endpoint="http://127.0.0.1:8000", repository="lab/pocket")
RELEASE = sha256(b"statement")
CARD = b"---\nlicense: apache-2.0\n---\n# Pocket\n\nText.\n"


def notice(**changed: object) -> Notice:
    fields: dict[str, object] = {
        "notice": Change.SUPERSEDE,
        "identity": Identity(name="pocket", version="1.0.0", repository="lab/pocket"),
        "release": RELEASE,
        "endpoint": PLACE.endpoint,
        "commit": "a" * 40,
        "successor": "1.0.1",
        "reason": "The tokenizer lacked a token.",
        "erratum": "Answers after 512 tokens are wrong.",
        "time": "2026-11-30T12:00:00.000000Z",
    }
    return Notice(**(fields | changed))  # type: ignore[arg-type]


def sealed(**changed: object) -> Notice:
    """A notice with an envelope; whether its signature is good is not for the record to say."""
    one = notice(**changed)
    made_up = Signature(key_id="", value=b"made up")
    return replace(one, envelope=Envelope(payload_type=IN_TOTO, payload=one.statement.encode(), signatures=(made_up,)))


def publication(**changed: object) -> Publication:
    fields: dict[str, object] = {
        "subject": Subject.RELEASE,
        "name": "pocket@1.0.0",
        "digest": RELEASE,
        "place": PLACE,
        "commit": "a" * 40,
        "tag": "v1.0.0",
        "branch": "main",
        "head": "b" * 40,
        "time": "2026-11-30T12:00:00.000000Z",
    }
    return Publication(**(fields | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("stage2-step846-tokens0.000866304B", (2, 846, 866_304)),
        ("stage1-step0-tokens0B", (1, 0, 0)),
        ("stage12-step1000000-tokens4194.304B", (12, 1_000_000, 4_194_304_000_000)),
        ("stage1-step1-tokens0.000000001B", (1, 1, 1)),
    ],
)
def test_a_branch_is_read_and_written_in_one_way(text, facts):
    branch = CheckpointBranch.parse(text)
    assert (branch.segment, branch.step, branch.tokens) == facts
    assert str(branch) == text


@pytest.mark.parametrize(
    "text",
    [
        "main", "v1.0.0", "stage0-step1-tokens1B", "stage01-step1-tokens1B", "stage1-step01-tokens1B",
        "stage1-step1-tokens1.0B", "stage1-step1-tokens1.50B", "stage1-step1-tokens.5B", "stage1-step1-tokens01B",
        "stage1-step1-tokens1", "stage1-step1-tokens1.0000000001B", "stage1-step1-tokens1B\n", "Stage1-step1-tokens1B",
        "stage1-step-1-tokens1B", "stage1-step1-tokens1b", "stage\u0661-step1-tokens1B", "",
    ],
)  # fmt: skip
def test_what_the_grammar_would_not_write_is_no_branch(text):
    with pytest.raises(Refused, match="no branch of a checkpoint"):
        CheckpointBranch.parse(text)


def test_the_segment_is_the_last_part_of_the_name():
    assert str(CheckpointBranch.of(Name.parse("hero/2@step-846"), 866_304)) == "stage2-step846-tokens0.000866304B"
    assert CheckpointBranch.of(Name.parse("rung/d48@step-7"), 5).segment == 1
    for name in ("hero/2", "hero/2@step-846:state.safetensors", "hero/0@step-1"):
        with pytest.raises(Refused):
            CheckpointBranch.of(Name.parse(name), 5)


def test_staging_branches_are_no_others():
    assert staging("v1.0.0", "ab" * 32) == "staging-v1.0.0-abababababab"
    with pytest.raises(Refused):
        staging("../x", "ab")


@pytest.mark.parametrize("record", [notice(), notice(notice=Change.YANK, successor=None), publication()])
def test_records_are_read_as_they_were_written(record):
    value = record.to_json() | {"later": 1}
    assert type(record).from_json(record.to_json()) == record
    assert type(record).from_json(value).to_json() == value
    with pytest.raises(MalformedRecord, match="schema 2"):
        type(record).from_json(record.to_json() | {"schema": 2})


@pytest.mark.parametrize(
    "changed",
    [
        {"commit": "a" * 39}, {"head": "main"}, {"tag": None}, {"branch": "dev"},
        {"subject": Subject.CHECKPOINT, "tag": None},
    ],
)  # fmt: skip
def test_a_publication_names_commits_and_the_right_branch(changed):
    with pytest.raises(ReckonError):
        publication(**changed)
    assert publication(subject=Subject.CHECKPOINT, tag=None, branch="stage1-step1-tokens1B").branch != "main"


@pytest.mark.parametrize(
    ("endpoint", "repository"),
    [
        ("https://user:secret@hub.example", "lab/x"), ("https://hub.example/?token=x", "lab/x"),
        ("https://hub.example/", "lab/x"), ("ftp://hub.example", "lab/x"), ("hub.example", "lab/x"),
        ("https://hub.example", "x"), ("https://hub.example", "lab/../x"), ("https://hub.example", "lab/x.git"),
        ("https://hub.example", "a/b/c"), ("https://hub.example", "lab/a--b"),
    ],
)  # fmt: skip
def test_no_place_holds_a_secret_or_another_path(endpoint, repository):
    with pytest.raises(ReckonError):
        Place(endpoint=endpoint, repository=repository)


def test_publications_are_found_by_their_bytes_and_place():
    later = publication(head="c" * 40, time="2026-12-01T12:00:00.000000Z")
    elsewhere = publication(place=Place(endpoint="https://hub.example", repository="lab/pocket"))
    raw = [(name_of(one), record_bytes(one)) for one in (later, publication(), elsewhere)]
    found = Publications.build([*raw, (sha256(b""), b"{}")])
    assert found.newest(RELEASE, PLACE) == later
    assert found.of(RELEASE, PLACE) == (publication(), later)
    assert len(found.of(RELEASE)) == 3
    assert found.newest(Digest.parse(f"sha256:{'0' * 64}")) is None
    assert len(found.damages) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"successor": None}, {"successor": "1.0.0"}, {"successor": "2"}, {"reason": " "}, {"reason": "a\x1b[2J"},
        {"erratum": "x" * 5000}, {"endpoint": "http://a:b@c"},
    ],
)  # fmt: skip
def test_a_notice_says_something_that_can_be_read(changed):
    with pytest.raises(ReckonError):
        notice(**changed)


def test_a_signed_notice_is_read_back_and_says_nothing_else_than_was_signed():
    one, other = sealed(), sealed(reason="Another.")
    assert Notice.from_json(one.to_json()) == one
    assert notices.decode(notices.encode([one])) == (one,)
    assert notices.annotated(CARD, [one]) == notices.annotated(CARD, [notice()])
    for altered in (
        one.to_json() | {"reason": "Altered."},
        one.to_json() | {"later": 1},
        one.to_json() | {"envelope": other.to_json()["envelope"]},
        one.to_json() | {"envelope": one.to_json()["envelope"] | {"payloadType": "text/plain"}},
        one.to_json() | {"envelope": None},
        one.to_json() | {"envelope": []},
    ):
        with pytest.raises(MalformedRecord):
            Notice.from_json(altered)


def test_notices_have_one_form_and_are_found_by_release():
    one, other = notice(), notice(notice=Change.YANK, release=sha256(b"other"), time="2026-11-01T00:00:00.000000Z")
    data = notices.encode([one, other, one])
    assert notices.decode(data) == (other, one)
    assert notices.about(notices.decode(data), RELEASE) == (one,)
    assert one.sentence == (
        "pocket 1.0.0 is superseded on 2026-11-30: The tokenizer lacked a token; use 1.0.1 instead. "
        "Erratum: Answers after 512 tokens are wrong."
    )
    for bad in (b"[]", b"{}", b'"x"', data + b" ", data.replace(b"pocket 1", b"pocket  1", 1) + b"\n"):
        with pytest.raises(MalformedRecord):
            notices.decode(bad)


@pytest.mark.parametrize(
    "card", [CARD, b"# No metadata\n", b"---\nopen: block\n", b"", b"---\n---\nx", CARD + b"---\n"]
)
def test_the_banner_comes_off_again_to_the_byte(card):
    told = (
        notice(),
        notice(notice=Change.YANK, reason="Bad > <b>data</b> --> ![x](y)\n# No", time="2026-12-01T00:00:00Z"),
    )
    shown = notices.annotated(card, told)
    assert notices.original(shown, told) == card
    assert notices.annotated(card, ()) == card
    assert b"<b>" not in shown
    assert b"**YANK**" in shown
    with pytest.raises(DoesNotHold, match="does not say"):
        notices.original(shown, told[:1])
    if card == CARD:
        assert shown.startswith(b"---\nlicense: apache-2.0\n---\n<!-- notices -->\n")


def test_the_sentence_of_a_notice_is_one_line():
    assert "\n" not in notice(reason="a\n\nb").sentence
