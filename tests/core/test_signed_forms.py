"""What is signed comes from anywhere: envelopes, model signatures, statements and keys are read strictly or refused."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.attestation import Attestation, Outcome, Rederivation
from registry.core.digests import FileEntry, sha256
from registry.core.dsse import IN_TOTO, LARGEST_ENVELOPE, Envelope, Signature, pae
from registry.core.findings import Trouble
from registry.core.modelsig import ModelSignature, is_ignored
from registry.core.publickeys import PublicKey
from registry.core.statement import Statement, Subject
from registry.errors import MalformedRecord, ReckonError

PREFIX = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
KEY = PublicKey(PREFIX + bytes(range(64)))
SIGNATURE = Signature(key_id=KEY.id, value=b"signature", public_key=KEY)
ENVELOPE = Envelope(payload_type=IN_TOTO, payload=b'{"a":1}', signatures=(SIGNATURE,))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    """The example of DSSE's protocol.md."""
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_an_envelope_is_read_as_it_was_written() -> None:
    assert Envelope.parse(ENVELOPE.encode()) == ENVELOPE
    assert Envelope.parse(json.dumps(ENVELOPE.to_json(), indent=3).encode()) == ENVELOPE
    assert ENVELOPE.view() == {"a": 1}
    assert ENVELOPE.digest == sha256(b'{"a":1}')


def _signature(**changes: object) -> dict[str, object]:
    fields = {"payloadType": "x/y", "payload": b64(b"x"), "signatures": [{"sig": b64(b"s")}]}
    return {**fields, **changes}


@pytest.mark.parametrize(
    ("envelope", "said"),
    [
        ([], "must be an object"),
        (_signature(signatures=[]), "1 to 16 signatures, not 0"),
        (_signature(signatures=[{"sig": b64(b"s")}] * 17), "not 17"),
        (_signature(signatures=[{"keyid": "ab", "sig": b64(b"s")}]), "does not name a key"),
        (_signature(signatures=[{"keyid": None, "sig": b64(b"s")}]), "'sig'"),
        (_signature(signatures=[{"sig": ""}]), "1 to 512 bytes, not 0"),
        (_signature(signatures=[{"sig": b64(b"s" * 513)}]), "not 513"),
        (_signature(signatures=[{"sig": b64(b"s"), "cert": "x"}]), "'sig'"),
        (_signature(signatures=[{"sig": b64(b"s"), "keyid": "0" * 64, "publicKey": KEY.pem}]), "another key"),
        (_signature(payload="eA"), "not base64"),
        (_signature(payload="eB=="), "second spelling"),
        (_signature(payload="e\nA=="), "not base64"),
        (_signature(payload="ｅA=="), "not base64"),
        (_signature(payloadType=""), "short ASCII"),
        (_signature(payloadType="é"), "short ASCII"),
        (_signature(more=1), "unknown fields"),
    ],
)
def test_an_envelope_in_another_form_is_refused(envelope: object, said: str) -> None:
    with pytest.raises(MalformedRecord, match=said):
        Envelope.parse(json.dumps(envelope, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"payload":"","payload":""}', "twice"),
        (b'{"payload":1.5}', "not an integer"),
        (b'{"payload":NaN}', "not an integer"),
        (b"[" * 100_000, "too deeply"),
        (b"[" * 40 + b"]" * 40, "deeper than"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b"9" * 5000, "not JSON"),
        (b" " * (LARGEST_ENVELOPE + 1), "the limit is"),
    ],
    ids=["cut", "no UTF-8", "twice", "float", "NaN", "recursion", "deep", "surrogate", "huge number", "huge"],
)
def test_hostile_json_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(MalformedRecord, match=said):
        Envelope.parse(data)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_at_all_are_more_than_refused(data: bytes) -> None:
    for read in (Envelope.parse, ModelSignature.parse, lambda one: PublicKey.parse(one.decode("latin-1"))):
        with pytest.raises(ReckonError):
            read(data)


def test_a_key_has_one_name_and_one_spelling() -> None:
    assert PublicKey.parse(KEY.pem) == KEY
    assert PublicKey.parse(KEY.pem.replace("\n", "\r\n")) == KEY
    assert KEY.id == hashlib.sha256(KEY.der).hexdigest()
    assert KEY.hint == hashlib.sha256(KEY.pem.encode()).hexdigest()


@pytest.mark.parametrize(
    "der",
    [b"", PREFIX, PREFIX + bytes(63), PREFIX + bytes(65), PREFIX[:-1] + b"\x02" + bytes(64), bytes(91)],
    ids=["empty", "no point", "short", "long", "compressed", "zeros"],
)
def test_another_kind_of_key_is_refused(der: bytes) -> None:
    body = b64(der)
    with pytest.raises(MalformedRecord):
        PublicKey.parse(f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")


def test_two_keys_in_one_file_are_refused() -> None:
    with pytest.raises(MalformedRecord, match="not one PEM block"):
        PublicKey.parse(KEY.pem + KEY.pem)


# model.sig


FILES = {"a.bin": sha256(b"a"), "sub/b.json": sha256(b"b")}


def resources(files: dict[str, object] = FILES) -> list[dict[str, object]]:
    return [{"name": name, "algorithm": "sha256", "digest": one.hex} for name, one in files.items()]


def model_sig(change: Callable[[dict, dict, dict], object] = lambda *_: None) -> bytes:
    """A ``model.sig``; ``change`` may alter the bundle, the statement and its predicate."""
    listed = resources()
    total = hashlib.sha256(b"".join(bytes.fromhex(one["digest"]) for one in listed)).hexdigest()
    predicate = {
        "serialization": {
            "method": "files",
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": ["model.sig", ".git", ".cache"],
        },
        "resources": listed,
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "model", "digest": {"sha256": total}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": predicate,
    }
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": KEY.hint}, "tlogEntries": []},
    }
    change(bundle, statement, predicate)
    signature = {"sig": b64(b"s"), "keyid": ""}
    envelope = {"payloadType": IN_TOTO, "payload": b64(json.dumps(statement).encode()), "signatures": [signature]}
    return json.dumps({"dsseEnvelope": envelope, **bundle}).encode()


def test_a_model_signature_lists_every_file() -> None:
    signature = ModelSignature.parse(model_sig())
    assert (signature.files, signature.hint) == (FILES, KEY.hint)


def _rehash(statement: dict, predicate: dict) -> None:
    total = hashlib.sha256(b"".join(bytes.fromhex(one["digest"]) for one in predicate["resources"])).hexdigest()
    statement["subject"][0]["digest"]["sha256"] = total


def _listing(*names: str) -> Callable[[dict, dict, dict], object]:
    def change(_bundle: dict, statement: dict, predicate: dict) -> None:
        digest = sha256(b"x").hex
        predicate["resources"] = [{"name": one, "algorithm": "sha256", "digest": digest} for one in names]
        _rehash(statement, predicate)

    return change


HOSTILE = {
    "media type": (lambda b, _s, _p: b.update(mediaType="x"), "no Sigstore bundle"),
    "certificate": (lambda b, _s, _p: b.update(verificationMaterial={"certificate": {}}), "public key and nothing"),
    "log entry": (lambda b, _s, _p: b["verificationMaterial"].update(tlogEntries=[1]), "public key and nothing"),
    "more material": (lambda b, _s, _p: b["verificationMaterial"].update(x=1), "public key and nothing"),
    "bad hint": (lambda b, _s, _p: b["verificationMaterial"].update(publicKey={"hint": "x"}), "name a key"),
    "unknown field": (lambda b, _s, _p: b.update(more=1), "unknown fields"),
    "other statement": (lambda _b, s, _p: s.update(_type="x"), "no in-toto|not hold an in-toto"),
    "other predicate": (lambda _b, s, _p: s.update(predicateType="x"), "version 1.0"),
    "shards": (lambda _b, _s, p: p["serialization"].update(method="shards"), "another way"),
    "other digest": (lambda _b, _s, p: p["serialization"].update(hash_type="blake3"), "another way"),
    "other setting": (lambda _b, _s, p: p["serialization"].update(shard_size=1), "another way"),
    "hides weights": (
        lambda _b, _s, p: p["serialization"].update(ignore_paths=["model.safetensors"]),
        "leaves out model.safetensors",
    ),
    "hides all": (lambda _b, _s, p: p["serialization"].update(ignore_paths=["."]), "leaves out"),
    "hides upwards": (lambda _b, _s, p: p["serialization"].update(ignore_paths="x"), "no list"),
    "wrong sum": (lambda _b, _s, p: p["resources"].reverse(), "sum"),
    "no files": (_listing(), "1 to"),
    "twice": (_listing("a", "a"), "each once"),
    "escape": (_listing("../a"), "leaves the folder"),
    "absolute": (_listing("/etc/passwd"), "leaves the folder"),
    "backslash": (_listing("a\\b"), "leaves the folder"),
    "itself": (_listing("model.sig"), "must leave out"),
    "git": (_listing(".git/config"), "must leave out"),
    "field of a file": (lambda _b, _s, p: p["resources"][0].update(x=1), "unknown fields"),
    "algorithm of a file": (lambda _b, _s, p: p["resources"][0].update(algorithm="md5"), "not by SHA-256"),
    "field of the predicate": (lambda _b, _s, p: p.update(x=1), "unknown fields"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_model_signature_in_another_form_is_refused(kind: str) -> None:
    change, said = HOSTILE[kind]
    with pytest.raises(MalformedRecord, match=said):
        ModelSignature.parse(model_sig(change))


def test_differences_of_a_folder_are_named() -> None:
    signature = ModelSignature.parse(model_sig())
    here = [("a.bin", b"A"), ("c", b"c"), (".gitattributes", b""), (".cache/x", b""), ("model.sig", b"")]
    entries = [FileEntry(path=path, size_bytes=len(data), digest=sha256(data)) for path, data in here]
    found = {one.path: one.trouble for one in signature.differences(entries, "pocket")}
    assert found == {"a.bin": Trouble.ALTERED, "c": Trouble.EXTRA, "sub/b.json": Trouble.MISSING}


def test_only_what_nobody_signs_is_left_out() -> None:
    assert [path for path in (".git", ".github/x", ".cache/a/b", "model.sig") if not is_ignored(path)] == []
    assert [path for path in (".gitlab", "a/.git/x", "a/model.sig", ".cached") if is_ignored(path)] == []


# statements and attestations


def test_a_statement_names_each_subject_once() -> None:
    one = Subject.of_bytes("a", sha256(b"a"))
    with pytest.raises(MalformedRecord, match="named once"):
        Statement(subjects=(one, one), predicate_type="x", predicate={})
    with pytest.raises(MalformedRecord, match="named once"):
        Statement(subjects=(), predicate_type="x", predicate={})
    with pytest.raises(MalformedRecord, match="lower-case hex"):
        Subject(name="a", digests={"sha256": "ABC"})


def word(**changes: object) -> Rederivation:
    fields: dict = {
        "who": "Other Lab",
        "stage": "hero/2",
        "recipe": sha256(b"recipe"),
        "product": sha256(b"product"),
        "outcome": Outcome.AGREES,
        "tier": "T2",
        "replayed_steps": 3,
        "total_steps": 4,
        "setup": {},
        "executions": (),
        "time": "2026-11-30T12:00:00.000000Z",
    }
    return Rederivation(**{**fields, **changes})


def enveloped(said: Rederivation, about: bytes = b"product") -> Envelope:
    subject = Subject.of_bytes(f"manifests/products/{said.product.hex}.json", sha256(about))
    statement = Statement(
        subjects=(subject,), predicate_type="urn:deadreckon:rederivation:v1", predicate=said.predicate()
    )
    return Envelope(payload_type=IN_TOTO, payload=statement.encode(), signatures=(SIGNATURE,))


def test_an_attestation_is_read_as_it_was_written() -> None:
    said = word(extra={"later": "kept"})
    assert Rederivation.of(enveloped(said)) == said
    assert said.coverage == "T2 3/4 steps"


@pytest.mark.parametrize(
    "changes",
    [{"tier": "T9"}, {"who": " "}, {"who": "a\nb"}, {"who": "x" * 201}],
    ids=["tier", "nobody", "two lines", "long"],
)
def test_an_attestation_that_does_not_say_who_or_how_far_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(MalformedRecord):
        word(**changes)


def test_an_attestation_of_another_product_than_its_subject_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="another product"):
        Attestation(envelope=enveloped(word(), about=b"something else"))
