"""A release is checked by its signatures: who signed, that it is what it says, that its files are those."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support import trusted
from support.trusted import TERMS, Sealed, check, state, texts, write

from registry.adapters.hashing import ReleaseFolder
from registry.adapters.signing import sign, verify
from registry.core.attestation import Outcome
from registry.core.digests import sha256
from registry.core.dsse import IN_TOTO, Envelope, Signature
from registry.core.findings import Trouble
from registry.core.modelsig import SIGNATURE
from registry.core.notices import Change, Notice
from registry.core.release import STATEMENT, Identity
from registry.core.trust import Trust
from registry.workflows.trusted import TrustChecker


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    return trusted.seal(tmp_path_factory.mktemp("release"))


@pytest.fixture
def own(sealed: Sealed, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(sealed.folder, tmp_path / "copy"))


def test_without_a_policy_a_good_release_is_by_an_unknown_key(sealed: Sealed) -> None:
    found = check(sealed.folder)
    assert (found.holds, texts(found)) == (True, [])
    assert found.says == f"attested by unknown key {sealed.lab.public_key.id[:12]}"
    assert found.signed.judgement.trust is Trust.UNKNOWN
    [word] = found.attested
    assert (word.by, word.rederivation.coverage, word.counts) == ("Other Lab (by their own word)", "T2", True)
    assert word.rederivation.machine == "elsewhere, Z80, 4 cores, Python 3.11.7"


def test_a_policy_says_who_signed_and_who_attests(sealed: Sealed) -> None:
    found = check(sealed.folder, sealed.policy(), name="pocket", version="1.0.0", repository="lab/pocket")
    assert (found.holds, found.says) == (True, f"attested by Lab (key {sealed.lab.public_key.id[:12]})")
    assert [word.by for word in found.attested] == ["Other"]


def test_a_notice_says_who_answers_for_it(sealed: Sealed) -> None:
    plain = Notice(
        notice=Change.YANK,
        identity=TERMS.identity,
        release=sha256(b"release"),
        endpoint="http://127.0.0.1:8000",
        commit="a" * 40,
        successor=None,
        reason="Wrong.",
        erratum=None,
        time=TERMS.time,
    )
    lab, stranger = (sign(IN_TOTO, plain.statement.encode(), key) for key in (sealed.lab, sealed.stranger))
    forged = replace(lab, signatures=(replace(lab.signatures[0], value=stranger.signatures[0].value),))
    known, nobody = TrustChecker(verify=verify, policy=sealed.policy()), TrustChecker(verify=verify, policy=None)

    def said(checker: TrustChecker, envelope: Envelope | None) -> str:
        return checker.noticed(replace(plain, envelope=envelope))

    assert said(known, None).startswith("The notice is unsigned: ")
    assert said(known, lab) == f"The notice is attested by Lab (key {sealed.lab.public_key.id[:12]})."
    assert said(nobody, lab) == f"The notice is attested by unknown key {sealed.lab.public_key.id[:12]}."
    assert said(known, stranger).startswith("Do not rely on the notice: The key ")
    assert said(nobody, forged).startswith("The signature of the notice does not hold: ")
    unnamed = replace(lab, signatures=(Signature(key_id="", value=b"-"),))
    assert said(known, unnamed) == "The notice does not say by which key it is, and no trust policy knows it."


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lab": 'releases = ["rocket"]'}, "may sign no release of pocket"),
        ({"lab": 'attests = ["pocket"]'}, "may sign no release of pocket"),
        ({"lab": 'releases = ["pocket"]\nend = 2026-11-30T12:00:00Z'}, "ended at 2026-11-30T12:00:00.000000Z"),
        ({"lab": 'releases = ["pocket"]\nvalid_from = 2026-12-01'}, "is valid from 2026-12-01"),
        ({"lab": 'releases = ["pocket"]\nrevoked = "stolen"'}, "was revoked: stolen"),
    ],
    ids=["other name", "attests only", "ended", "too early", "revoked"],
)
def test_a_key_that_may_not_sign_this_is_a_finding(sealed: Sealed, settings: dict[str, str], said: str) -> None:
    found = check(sealed.folder, sealed.policy(**settings))
    assert not found.holds
    [finding] = found.verdict.findings
    assert (finding.trouble, finding.path) == (Trouble.TRUST, STATEMENT)
    assert said in finding.text


def test_a_key_that_the_policy_does_not_know_is_a_finding(sealed: Sealed, own: Path) -> None:
    state(own, TERMS, sealed.stranger)
    found = check(own, sealed.policy())
    assert f"The key {sealed.stranger.public_key.id[:12]} is not in the trust policy." in texts(found)


def test_what_a_revoked_key_keeps_still_counts(sealed: Sealed) -> None:
    kept = check(sealed.folder).signed.statement.digest
    revoked = f'releases = ["pocket"]\nrevoked = "stolen"\nkeeps = ["{kept}"]'
    assert check(sealed.folder, sealed.policy(lab=revoked)).holds
    other = revoked.replace(kept.hex, "0" * 64)
    assert not check(sealed.folder, sealed.policy(lab=other)).holds


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"version": "2.0.0"}, "its version is 1.0.0; 2.0.0 was asked for"),
        ({"name": "rocket"}, "its name is pocket; rocket was asked for"),
        ({"repository": "thief/pocket"}, "its repository is lab/pocket; thief/pocket was asked for"),
        ({"parent": sha256(b"before")}, "says that it follows none"),
    ],
    ids=["version", "name", "repository", "parent"],
)
def test_an_old_release_does_not_pass_for_a_new_one(sealed: Sealed, expected: dict[str, object], said: str) -> None:
    found = check(sealed.folder, sealed.policy(), **expected)
    [finding] = found.verdict.findings
    assert finding.trouble is Trouble.REPLAY
    assert said in finding.text


def test_renaming_an_old_release_breaks_its_signature(sealed: Sealed, own: Path) -> None:
    envelope = Envelope.parse((own / STATEMENT).read_bytes())
    forged = replace(envelope, payload=envelope.payload.replace(b'"1.0.0"', b'"2.0.0"'))
    write(own, STATEMENT, forged.encode())
    found = check(own, sealed.policy(), version="2.0.0")
    assert found.signed is None
    assert any("is not over these bytes" in text for text in texts(found))


def test_the_two_signatures_must_be_of_one_release(sealed: Sealed, own: Path) -> None:
    """The signature of one release beside the statement of another, both by the lab."""
    write(own, "config.json", b"{ }\n")
    state(own, replace(TERMS, identity=Identity(name="pocket", version="1.0.1", repository="lab/pocket")), sealed.lab)
    shutil.copy(sealed.folder / STATEMENT, own / STATEMENT)
    found = check(own, sealed.policy())
    assert found.signed is None
    assert f"{SIGNATURE} and the release statement speak of different bytes of config.json." in texts(found)


def test_model_sig_by_another_key_is_told(sealed: Sealed, own: Path) -> None:
    statement = (own / STATEMENT).read_bytes()
    state(own, TERMS, sealed.stranger)
    write(own, STATEMENT, statement)
    assert f"{SIGNATURE} is by another key than the release statement." in texts(check(own))


@pytest.mark.parametrize("path", [STATEMENT, SIGNATURE])
def test_without_a_signature_nothing_is_attested(own: Path, path: str) -> None:
    (own / path).unlink()
    found = check(own)
    assert (found.holds, found.signed, found.says) == (False, None, "not attested")
    assert texts(found) == [f"The release is not signed as a release is: There is no {path}."]


def _flip(folder: Path) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[7] ^= 1
    write(folder, "model.safetensors", bytes(data))


TAMPERED = {
    "flipped bit": (_flip, "model.safetensors has other bytes than were signed."),
    "extra": (lambda folder: write(folder, "modeling.py", b"#"), "modeling.py is not among the signed files."),
    "missing": (lambda folder: (folder / "config.json").unlink(), "config.json is signed and not there."),
    "renamed": (
        lambda folder: (folder / "config.json").rename(folder / "conf.json"),
        "conf.json is not among the signed files.",
    ),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_every_file_is_held_against_the_signature(own: Path, kind: str) -> None:
    tamper, said = TAMPERED[kind]
    tamper(own)
    found = check(own)
    assert not found.holds
    assert said in texts(found)


def test_files_of_git_and_of_the_hubs_client_are_no_part_of_a_release(own: Path) -> None:
    write(own, ".gitattributes", b"*.bin filter=lfs")
    write(own, ".cache/huggingface/download/x.metadata", b"1")
    assert check(own).holds


def test_a_stages_statement_by_another_key_is_a_finding(sealed: Sealed, own: Path) -> None:
    payload = trusted.stages()["data"]
    write(own, "provenance/stages/data.dsse.json", sign(IN_TOTO, payload, sealed.stranger).encode())
    state(own, TERMS, sealed.lab)
    found = texts(check(own))
    assert any(text.startswith("provenance/stages/data.dsse.json: The envelope is signed by the key") for text in found)


def test_a_gap_in_the_chain_of_stages_is_a_finding(sealed: Sealed, own: Path) -> None:
    (own / "provenance/stages/data.dsse.json").unlink()
    state(own, TERMS, sealed.lab)
    assert texts(check(own)) == ["artifacts/data is a dependency and no statement's subject."]


def test_a_chain_that_does_not_end_in_the_product_is_a_finding(sealed: Sealed, own: Path) -> None:
    other = replace(TERMS, product=sha256(b"something else"))
    state(own, other, sealed.lab)
    assert texts(check(own)) == [f"No stage's statement tells of the released product {other.product.short}."]


def test_an_attestation_that_nobody_signed_is_a_finding(sealed: Sealed, own: Path) -> None:
    good = Envelope.parse((own / "provenance/attestations/other.dsse.json").read_bytes())
    forged = replace(good, payload=good.payload.replace(b'"T2"', b'"T4"'))
    write(own, "provenance/attestations/other.dsse.json", forged.encode())
    write(own, "provenance/attestations/not.dsse.json", b"[]")
    state(own, TERMS, sealed.lab)
    found = check(own)
    assert [word.counts for word in found.attested] == [False]
    assert [finding.trouble for finding in found.verdict.findings] == [Trouble.SIGNATURE] * 2
    assert "is not over these bytes" in texts(found)[1]


def test_an_attestation_by_a_key_that_may_not_does_not_count_and_harms_nothing(sealed: Sealed) -> None:
    found = check(sealed.folder, sealed.policy(other='attests = ["hero/*"]'))
    assert found.holds
    assert [(word.counts, word.judgement.trust) for word in found.attested] == [(False, Trust.REFUSED)]


def test_the_signatures_are_judged_from_two_small_files(sealed: Sealed) -> None:
    """So that nothing else need be fetched for a release that is not to be trusted."""
    asked = []

    def read(path: str) -> bytes:
        asked.append(path)
        return ReleaseFolder(root=sealed.folder).read(path)

    signed, findings = TrustChecker(verify=verify, policy=sealed.policy()).seals(read)
    assert (sorted(asked), findings) == ([SIGNATURE, STATEMENT], ())
    assert signed.files["model.safetensors"] == sha256(b"weights" * 100)


def test_an_attestation_tells_what_came_out(sealed: Sealed) -> None:
    statement = json.loads(trusted.attestation(sealed.other).payload)
    assert [subject["name"] for subject in statement["subject"]] == [
        f"manifests/products/{trusted.PRODUCT_DIGEST.hex}.json",
        "export",
    ]
    assert statement["predicate"]["outcome"] == Outcome.AGREES
