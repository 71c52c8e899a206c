"""Keys that sign, and the check of signatures.

A key is a PEM file, or lies in a hardware token that PKCS#11 reaches. Checking needs ``cryptography`` alone; signing a
folder (OpenSSF model signing) and tokens need the extra ``sign``. Refuses to overwrite a key, key files that others
can read, keys on another curve than P-256, PINs and passphrases in a URI, and to sign a folder twice.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast
from urllib.parse import quote

from registry.core.dsse import Envelope, Signature
from registry.core.modelsig import IGNORED, SIGNATURE, ModelSignature
from registry.core.publickeys import PublicKey
from registry.errors import DoesNotHold, OutsideFailed, Refused
from registry.keeping import keep_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

LARGEST_KEY_FILE: Final = 64 * 2**10
TOKEN: Final = "pkcs11:"  # noqa: S105  # the scheme of RFC 7512
Secret: TypeAlias = Callable[[], str]


class Key(Protocol):
    """A private key, wherever it lies."""

    @property
    def public_key(self) -> PublicKey:
        """The public half."""
        ...

    def sign(self, data: bytes) -> bytes:
        """ECDSA over the SHA-256 of ``data``, in DER form."""
        ...

    def sign_model(self, folder: Path, signature: Path) -> None:
        """Sign all files of a folder with OpenSSF model signing; the signature goes to ``signature``."""
        ...


def new_key(path: Path, passphrase: str | None) -> PublicKey:
    """Make a key at ``path`` (mode 0600, PKCS#8, encrypted with a passphrase) and its public half at ``path.pub``.

    Raises ``Refused`` when either file is there already.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    public_path = path.with_name(f"{path.name}.pub")
    for there in (path, public_path):
        if there.exists() or there.is_symlink():
            raise Refused(f"{there} exists; a key is never overwritten.", remedy="Choose another name.")
    key = ec.generate_private_key(ec.SECP256R1())
    encryption: form.KeySerializationEncryption = (
        form.NoEncryption() if passphrase is None else form.BestAvailableEncryption(passphrase.encode())
    )
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption)
    public = _public(key)
    _create(path, private, 0o600)
    _create(public_path, public.pem.encode(), 0o644)
    return public


def read_public(path: Path) -> PublicKey:
    """The public key in a PEM file. Raises ``Refused`` when there is none."""
    text = _bounded(path).decode("utf-8", "replace")
    if "PRIVATE KEY-----" in text:
        raise Refused("That is the private key; show its .pub.", remedy=f"See 'reckon keys show {path}.pub'.")
    return PublicKey.parse(text)


def open_key(place: str, secret: Secret) -> Key:
    """The key in a PEM file, or in the token of a ``pkcs11:`` URI.

    ``secret`` gives the passphrase or the PIN, and is only asked when one is needed. Raises ``Refused`` when the key
    cannot be used, ``OutsideFailed`` when the token fails.
    """
    return HardwareKey(place, secret) if place.startswith(TOKEN) else FileKey.open(Path(place), secret)


def sign(payload_type: str, payload: bytes, key: Key) -> Envelope:
    """An envelope over ``payload`` with the key's signature and its public half."""
    unsigned = Signature(key_id="", value=b"-")
    signed = Envelope(payload_type=payload_type, payload=payload, signatures=(unsigned,)).signed
    public = key.public_key
    mine = Signature(key_id=public.id, value=key.sign(signed), public_key=public)
    envelope = Envelope(payload_type=payload_type, payload=payload, signatures=(mine,))
    verify(envelope, public)
    return envelope


def verify(envelope: Envelope, public_key: PublicKey) -> None:
    """Check that one of an envelope's signatures is by this key. Raises ``DoesNotHold`` when none is."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    mine = [one for one in envelope.signatures if one.key_id in ("", public_key.id)]
    if not mine:
        named = ", ".join(one.key_id[:12] for one in envelope.signatures)
        raise DoesNotHold(f"The envelope is signed by the key {named}, not by {public_key.id[:12]}.")
    try:
        key = serialization.load_der_public_key(public_key.der)
    except ValueError as error:
        raise DoesNotHold(f"The public key {public_key.id[:12]} is no point on the curve P-256.") from error
    for one in mine:
        with suppress(InvalidSignature):
            cast(ec.EllipticCurvePublicKey, key).verify(one.value, envelope.signed, ec.ECDSA(hashes.SHA256()))
            return
    raise DoesNotHold(f"The signature of the key {public_key.id[:12]} is not over these bytes.")


def sign_folder(folder: Path, key: Key) -> ModelSignature:
    """Sign all files of a folder, and put ``model.sig`` into it once it was read back and checked.

    Raises ``Refused`` when the folder is signed already or holds what cannot be signed (links, special files).
    """
    target = folder / SIGNATURE
    if target.exists() or target.is_symlink():
        raise Refused(f"{folder} is signed already.", remedy=f"Take {SIGNATURE} away to sign it again.")
    for one in folder.rglob("*"):
        if one.is_symlink() or not (one.is_file() or one.is_dir()):
            raise Refused(f"{one} is neither a file nor a folder, and cannot be signed.", remedy="Take it away.")
    with TemporaryDirectory(prefix="signing-") as scratch:
        written = Path(scratch) / SIGNATURE
        key.sign_model(folder, written)
        data = written.read_bytes()
    signature = ModelSignature.parse(data)
    verify(signature.envelope, key.public_key)
    keep_whole(target, data)
    return signature


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key in a PEM file, opened."""

    path: Path
    private: EllipticCurvePrivateKey
    passphrase: str | None

    @classmethod
    def open(cls, path: Path, secret: Secret) -> FileKey:
        """Open a key file; ``secret`` is asked for the passphrase of an encrypted one. Raises ``Refused``."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        data = _bounded(path)
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Refused(f"Others can read the key file {path}.", remedy=f"chmod 600 {path}, or make a new key.")
        passphrase = secret() if b"ENCRYPTED" in data else None
        try:
            key = serialization.load_pem_private_key(data, None if passphrase is None else passphrase.encode())
        except (ValueError, TypeError) as error:
            reason = "its passphrase is another" if passphrase is not None else "it is no PEM file of a private key"
            raise Refused(f"The key file {path} cannot be opened: {reason}.") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
            raise Refused(f"The key in {path} is not on the curve P-256.", remedy="Make one with 'reckon keys new'.")
        return cls(path, key, passphrase)

    @property
    def public_key(self) -> PublicKey:
        """The public half."""
        return _public(self.private)

    def sign(self, data: bytes) -> bytes:
        """ECDSA over the SHA-256 of ``data``, in DER form."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        return self.private.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))

    def sign_model(self, folder: Path, signature: Path) -> None:
        """Sign all files of a folder with OpenSSF model signing."""
        password = None if self.passphrase is None else self.passphrase.encode()
        _signing().use_elliptic_key_signer(private_key=self.path, password=password).sign(folder, signature)


class HardwareKey:
    """A key in a hardware token. The PIN is used to log in and is in no message.

    Refuses a PIN in the URI itself, where every user of the machine could read it.
    """

    def __init__(self, uri: str, secret: Secret) -> None:
        query = uri.partition("?")[2]
        if "pin-value" in query:
            raise Refused("The URI of the key holds its PIN.", remedy="Leave it out: it is asked for, or in a file.")
        whole = uri if "pin-source" in query else f"{uri}{'&' if query else '?'}pin-value={quote(secret(), safe='')}"
        with _token_errors():
            self._config = _signing().use_pkcs11_signer(pkcs11_uri=whole)
        # The library offers signing of folders only; envelopes are signed in the session that it opened.
        self._signer = self._config._signer  # noqa: SLF001

    @property
    def public_key(self) -> PublicKey:
        """The public half, as the token gives it."""
        return _public_of(self._signer.public_key())

    def sign(self, data: bytes) -> bytes:
        """ECDSA over the SHA-256 of ``data``, in DER form."""
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from PyKCS11 import CKM_ECDSA, Mechanism

        digest = hashlib.sha256(data).digest()
        with _token_errors():
            raw = bytes(self._signer.session.sign(self._signer._private_key, digest, Mechanism(CKM_ECDSA, None)))  # noqa: SLF001
        half = len(raw) // 2
        return encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))

    def sign_model(self, folder: Path, signature: Path) -> None:
        """Sign all files of a folder with OpenSSF model signing."""
        with _token_errors():
            self._config.sign(folder, signature)


def _signing() -> Any:
    """A signing configuration of the library: every file whole, by SHA-256, without what nobody signs."""
    from model_signing import hashing, signing

    hashed = hashing.Config().set_ignored_paths(paths=IGNORED, ignore_git_paths=True)
    return signing.Config().set_hashing_config(hashed)


@contextmanager
def _token_errors() -> Iterator[None]:
    """What the token or its library says, as our errors."""
    from PyKCS11 import PyKCS11Error

    try:
        yield
    except ValueError as error:
        text = f"The key in the token cannot be used: {str(error)[:200] or 'the module is not there'}."
        raise Refused(text, remedy="See RFC 7512 for the URI: it needs module-path, token and object.") from error
    except PyKCS11Error as error:
        raise OutsideFailed(f"The token failed: {error}.", remedy="Check the module, the token and the PIN.") from error


def _public(key: EllipticCurvePrivateKey) -> PublicKey:
    return _public_of(key.public_key())


def _public_of(key: EllipticCurvePublicKey) -> PublicKey:
    from cryptography.hazmat.primitives import serialization as form

    return PublicKey(key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo))


def _bounded(path: Path) -> bytes:
    """The bytes of a key file. Raises ``Refused`` when it is missing, no regular file, or too large."""
    if not path.is_file():
        raise Refused(f"There is no key file {path}.", remedy="Make one with 'reckon keys new'.")
    if path.stat().st_size > LARGEST_KEY_FILE:
        raise Refused(f"{path} is too large for a key.")
    return path.read_bytes()


def _create(path: Path, data: bytes, mode: int) -> None:
    """A new file with these permissions from its first moment on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
