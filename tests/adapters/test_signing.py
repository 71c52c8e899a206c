"""Signing and checking: key files, hardware tokens, and the same answers as the stock tools give."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import trusted
from support.trusted import Sealed

from registry.adapters import signing
from registry.adapters.hashing import ReleaseFolder
from registry.core.dsse import IN_TOTO, Envelope
from registry.core.modelsig import SIGNATURE, ModelSignature
from registry.core.publickeys import PublicKey
from registry.core.release import STATEMENT
from registry.errors import DoesNotHold, OutsideFailed, Refused

SOFTHSM = next((path for path in Path("/usr/lib").glob("**/libsofthsm2.so") if path.is_file()), None)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    return trusted.seal(tmp_path_factory.mktemp("signed"), by_hand=False)


@pytest.fixture
def own(sealed: Sealed, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed.folder, tmp_path / "copy"))


def snapshot(folder: Path, cache: Path) -> Path:
    """The folder as the Hub's client keeps it in its cache: links to blobs."""
    blobs, root = cache / "models--lab--pocket/blobs", cache / f"models--lab--pocket/snapshots/{'a' * 40}"
    blobs.mkdir(parents=True)
    for number, entry in enumerate(ReleaseFolder(root=folder).entries()):
        (blobs / f"{number:064x}").write_bytes((folder / entry.path).read_bytes())
        link = root / entry.path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blobs / f"{number:064x}", link.parent))
    (blobs / "sig").write_bytes((folder / SIGNATURE).read_bytes())
    (root / SIGNATURE).symlink_to("../../blobs/sig")
    return root


def public_file(key: signing.Key, place: Path) -> Path:
    place.write_text(key.public_key.pem)
    return place


def stock(folder: Path, public: Path, *more: str) -> tuple[bool, str]:
    """What ``model_signing verify key`` says, called in this process."""
    from model_signing._cli import main

    arguments = ["verify", "key", str(folder), "--signature", str(folder / SIGNATURE), "--public_key", str(public)]
    ended = CliRunner().invoke(main, ["--log-level", "ERROR", *arguments, *more], standalone_mode=True)
    return ended.exit_code == 0, ended.output


def ours(folder: Path, key: PublicKey) -> list[str]:
    """What we say of the same question: the files against ``model.sig``, and the signature against the key."""
    found = ReleaseFolder(root=folder)
    signature = ModelSignature.parse(found.read(SIGNATURE))
    wrong = [finding.text for finding in signature.differences(found.entries(), "release")]
    if signature.hint != key.hint:
        wrong.append("another key")
    try:
        signing.verify(signature.envelope, key)
    except DoesNotHold as error:
        wrong.append(error.message)
    return wrong


def _flip(folder: Path) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 0x80
    (folder / "model.safetensors").write_bytes(data)


TAMPERED = {
    "flipped bit": (_flip, "model.safetensors has other bytes than were signed."),
    "extra file": (lambda folder: (folder / "extra.py").write_text("x"), "extra.py is not among the signed files."),
    "missing file": (lambda folder: (folder / "config.json").unlink(), "config.json is signed and not there."),
    "renamed file": (
        lambda folder: (folder / "config.json").rename(folder / "other.json"),
        "other.json is not among the signed files.",
    ),
}


@pytest.mark.slow
def test_the_stock_command_accepts_a_release(sealed: Sealed, tmp_path: Path) -> None:
    """As a process, as a user would call it."""
    public = public_file(sealed.lab, tmp_path / "lab.pub")
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(sealed.folder)]
    command += ["--signature", str(sealed.folder / SIGNATURE), "--public_key", str(public)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Verification succeeded\n"), done.stderr
    assert ours(sealed.folder, sealed.lab.public_key) == []


@pytest.mark.slow
def test_both_accept_a_snapshot_of_the_hubs_cache(sealed: Sealed, tmp_path: Path) -> None:
    root = snapshot(sealed.folder, tmp_path / "hub")
    assert stock(root, public_file(sealed.lab, tmp_path / "lab.pub"), "--allow_symlinks") == (
        True,
        "Verification succeeded\n",
    )
    assert ours(root, sealed.lab.public_key) == []
    assert trusted.check(root, sealed.policy()).holds


@pytest.mark.slow
def test_both_accept_a_folder_with_notes_of_the_hubs_client(sealed: Sealed, own: Path, tmp_path: Path) -> None:
    trusted.write(own, ".cache/huggingface/download/config.json.metadata", b"1")
    trusted.write(own, ".gitattributes", b"")
    assert stock(own, public_file(sealed.lab, tmp_path / "lab.pub"))[0]
    assert ours(own, sealed.lab.public_key) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", TAMPERED)
def test_both_reject_what_was_tampered_with(sealed: Sealed, own: Path, tmp_path: Path, kind: str) -> None:
    tamper, said = TAMPERED[kind]
    tamper(own)
    accepted, output = stock(own, public_file(sealed.lab, tmp_path / "lab.pub"))
    assert (accepted, "Signature mismatch" in output) == (False, True)
    assert said in ours(own, sealed.lab.public_key)


@pytest.mark.slow
def test_both_reject_another_key(sealed: Sealed, tmp_path: Path) -> None:
    assert not stock(sealed.folder, public_file(sealed.stranger, tmp_path / "stranger.pub"))[0]
    assert len(ours(sealed.folder, sealed.stranger.public_key)) == 2


@pytest.mark.slow
def test_a_link_out_of_a_snapshot_is_refused(sealed: Sealed, tmp_path: Path) -> None:
    root = snapshot(sealed.folder, tmp_path / "hub")
    (tmp_path / "secret").write_text("x")
    (root / "config.json").unlink()
    (root / "config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(Refused, match="leaves its tree"):
        ReleaseFolder(root=root).entries()


@pytest.mark.slow
def test_securesystemslib_alone_verifies_an_envelope(sealed: Sealed) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib import dsse
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    def keys(of: signing.Key) -> list[SSlibKey]:
        pem = load_pem_public_key(of.public_key.pem.encode())
        return [SSlibKey.from_crypto(pem, keyid=sealed.lab.public_key.id)]

    for path in (STATEMENT, "provenance/stages/export.dsse.json"):
        envelope = dsse.Envelope.from_dict(json.loads((sealed.folder / path).read_bytes()))
        assert list(envelope.verify(keys(sealed.lab), 1)) == [sealed.lab.public_key.id]
        with pytest.raises(VerificationError):
            envelope.verify(keys(sealed.stranger), 1)
        envelope.payload += b" "
        with pytest.raises(VerificationError):
            envelope.verify(keys(sealed.lab), 1)


def test_ours_verifies_an_envelope_of_securesystemslib(tmp_path: Path) -> None:
    from securesystemslib import dsse
    from securesystemslib.signer import CryptoSigner

    signer = CryptoSigner.generate_ecdsa()
    envelope = dsse.Envelope(payload=b"{}", payload_type=IN_TOTO, signatures={})
    envelope.sign(signer)
    data = envelope.to_dict()
    data["signatures"] = [{"sig": one["sig"]} for one in data["signatures"]]
    public = PublicKey.parse(signer.public_key.keyval["public"])
    read = Envelope.parse(json.dumps(data, indent=2).encode())
    signing.verify(read, public)
    other = signing.new_key(tmp_path / "other.pem", None)
    with pytest.raises(DoesNotHold, match="is not over these bytes"):
        signing.verify(read, other)


def test_a_new_key_is_private_and_is_never_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "a.pem"
    public = signing.new_key(place, None)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert signing.read_public(tmp_path / "a.pem.pub") == public
    before = place.read_bytes()
    with pytest.raises(Refused, match="never overwritten"):
        signing.new_key(place, None)
    place.rename(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=r"a\.pem\.pub exists"):
        signing.new_key(place, None)
    assert not place.exists()
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_an_encrypted_key_needs_its_passphrase(tmp_path: Path) -> None:
    place = tmp_path / "a.pem"
    public = signing.new_key(place, "größer als 1")
    assert b"ENCRYPTED" in place.read_bytes()
    key = signing.open_key(str(place), lambda: "größer als 1")
    signing.verify(signing.sign("text/plain", b"x", key), public)
    with pytest.raises(Refused, match="passphrase is another"):
        signing.open_key(str(place), lambda: "kleiner")


@pytest.mark.slow
def test_an_encrypted_key_signs_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "a.pem"
    public = signing.new_key(place, "geheim")
    trusted.write(tmp_path / "model", "a", b"1")
    signing.sign_folder(tmp_path / "model", signing.open_key(str(place), lambda: "geheim"))
    assert ours(tmp_path / "model", public) == []
    with pytest.raises(Refused, match="signed already"):
        signing.sign_folder(tmp_path / "model", signing.open_key(str(place), lambda: "geheim"))


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "a.pem"
    signing.new_key(place, None)
    place.chmod(0o640)
    with pytest.raises(Refused, match="Others can read"):
        signing.open_key(str(place), lambda: "")


@pytest.mark.parametrize(
    "text", ["", "not a key", "-----BEGIN " + "PRIVATE KEY-----\nAAAA\n-----END " + "PRIVATE KEY-----\n"]
)
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    place = tmp_path / "a.pem"
    place.write_text(text)
    place.chmod(0o600)
    with pytest.raises(Refused, match="cannot be opened"):
        signing.open_key(str(place), lambda: "")
    with pytest.raises(Refused, match="no key file"):
        signing.open_key(str(tmp_path / "nothing"), lambda: "")


def test_a_key_on_another_curve_is_refused(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    for key in (ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()):
        place = tmp_path / f"{type(key).__name__}.pem"
        place.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
        place.chmod(0o600)
        with pytest.raises(Refused, match="not on the curve P-256"):
            signing.open_key(str(place), lambda: "")


def test_a_point_that_is_not_on_the_curve_verifies_nothing(tmp_path: Path) -> None:
    signing.new_key(tmp_path / "a.pem", None)
    envelope = signing.sign("text/plain", b"x", signing.open_key(str(tmp_path / "a.pem"), lambda: ""))
    off = PublicKey(envelope.signatures[0].public_key.der[:-1] + b"\0")
    read = Envelope.parse(json.dumps({**envelope.to_json(), "signatures": [_unnamed(envelope)]}).encode())
    with pytest.raises(DoesNotHold, match="no point on the curve"):
        signing.verify(read, off)


def _unnamed(envelope: Envelope) -> dict[str, object]:
    return {"sig": envelope.signatures[0].to_json()["sig"]}


def test_a_folder_with_a_link_is_not_signed(tmp_path: Path) -> None:
    signing.new_key(tmp_path / "a.pem", None)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "a.pem")
    with pytest.raises(Refused, match="neither a file nor a folder"):
        signing.sign_folder(folder, signing.open_key(str(tmp_path / "a.pem"), lambda: ""))


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a P-256 key in a software token."""
    if SOFTHSM is None or shutil.which("softhsm2-util") is None:
        pytest.skip("needs SoftHSM, a PKCS#11 token in software (Debian: softhsm2)")
    (tmp_path / "tokens").mkdir()
    settings = tmp_path / "softhsm.conf"
    settings.write_text(f"directories.tokendir = {tmp_path}/tokens\nobjectstore.backend = file\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(settings))
    signing.new_key(tmp_path / "inside.pem", None)
    for arguments in (
        ["--init-token", "--free", "--label", "lab", "--so-pin", "4321"],
        ["--import", str(tmp_path / "inside.pem"), "--token", "lab", "--label", "release", "--id", "01"],
    ):
        subprocess.run(["softhsm2-util", *arguments, "--pin", "1234"], check=True, capture_output=True)
    return f"pkcs11:token=lab;object=release?module-path={SOFTHSM}"


# The token's library reads its settings once in a process, so that one process does all that has to do with a token.
IN_TOKEN = """
import sys
from pathlib import Path
from registry.adapters import signing
uri, folder, pin = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
key = signing.open_key(uri, lambda: pin)
envelope = signing.sign("text/plain", b"x", key)
signing.sign_folder(folder, key)
print(key.public_key.id, len(envelope.signatures))
"""


def in_token(uri: str, folder: Path, pin: str, root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IN_TOKEN, uri, str(folder), pin]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)


@pytest.mark.slow
def test_a_key_in_a_token_signs_what_everybody_can_check(token: str, tmp_path: Path, root: Path) -> None:
    trusted.write(tmp_path / "model", "a", b"1")
    public = signing.read_public(tmp_path / "inside.pem.pub")
    done = in_token(token, tmp_path / "model", "1234", root)
    assert (done.returncode, done.stdout) == (0, f"{public.id} 1\n"), done.stderr
    assert stock(tmp_path / "model", tmp_path / "inside.pem.pub")[0]
    assert ours(tmp_path / "model", public) == []


@pytest.mark.slow
def test_a_wrong_pin_fails_and_is_in_no_message(token: str, tmp_path: Path, root: Path) -> None:
    trusted.write(tmp_path / "model", "a", b"1")
    done = in_token(token, tmp_path / "model", "998877", root)
    assert done.returncode != 0
    assert OutsideFailed.__name__ in done.stderr
    assert "CKR_PIN_INCORRECT" in done.stderr
    assert "998877" not in done.stderr
    assert not (tmp_path / "model" / SIGNATURE).exists()


def test_a_pin_in_the_uri_is_refused() -> None:
    with pytest.raises(Refused, match="holds its PIN"):
        signing.open_key("pkcs11:token=lab?module-path=/x&pin-value=1234", lambda: "")
