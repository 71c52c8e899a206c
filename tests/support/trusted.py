"""A release with all that is signed in one: files, two chained stages, an attestation by a third party; and its keys.

Everything is real but the weights, which are a few bytes. A test copies ``folder`` and tampers with its copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from registry.adapters.hashing import ReleaseFolder
from registry.adapters.signing import Key, new_key, open_key, sign, sign_folder, verify
from registry.core import canonical
from registry.core.attestation import Outcome, Rederivation
from registry.core.digests import Digest, sha256
from registry.core.dsse import IN_TOTO, Envelope
from registry.core.modelsig import IGNORED, SIGNATURE
from registry.core.names import Name
from registry.core.records import Output, Product
from registry.core.release import STATEMENT, Identity, ReleaseStatement, Terms, Weights
from registry.core.statement import Statement, Subject
from registry.core.trust import TrustPolicy
from registry.workflows.trusted import Expected, TrustChecker, Trusted

TIME = "2026-11-30T12:00:00.000000Z"
PRODUCT = Product(
    stage="export",
    recipe=sha256(b"recipe"),
    outputs=(
        Output(
            name="export",
            path="artifacts/export",
            digest=sha256(b"tree"),
            size_bytes=3,
            files=1,
            contents={"tensors": str(sha256(b"root"))},
            locator=None,
        ),
    ),
)
PRODUCT_DIGEST = sha256(b"product")
TERMS = Terms(
    identity=Identity(name="pocket", version="1.0.0", repository="lab/pocket"),
    parent=None,
    artifact="export",
    product=PRODUCT_DIGEST,
    weights=Weights(checkpoint=Name(stage="hero/2", step=7), checkpoint_root=sha256(b"c"), root=sha256(b"r")),
    commit="0" * 40,
    time=TIME,
    accepted_taint=None,
)
WORD = Rederivation(
    who="Other Lab",
    stage="export",
    recipe=PRODUCT.recipe,
    product=PRODUCT_DIGEST,
    outcome=Outcome.AGREES,
    tier="T2",
    replayed_steps=None,
    total_steps=None,
    setup={"host": {"name": "elsewhere", "processor": "Z80", "cores": 4}, "python": "3.11.7"},
    executions=(sha256(b"execution"),),
    time=TIME,
)


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """The folder of a release and the keys around it: the lab's, a third party's, and a stranger's."""

    folder: Path
    lab: Key
    other: Key
    stranger: Key

    def policy(self, *more: str, lab: str = 'releases = ["pocket"]', other: str = 'attests = ["*"]') -> TrustPolicy:
        """A policy that knows the lab and the third party, with these settings."""
        return TrustPolicy.parse(
            "\n".join(
                ["schema = 1", *more, *_entry("Lab", self.lab, lab), *_entry("Other", self.other, other)]
            ).encode()
        )


def _entry(who: str, key: Key, settings: str) -> Sequence[str]:
    return ("[[key]]", f'who = "{who}"', f"public_key = '''\n{key.public_key.pem}'''", settings)


def key(place: Path) -> Key:
    """A new key."""
    new_key(place, None)
    return open_key(str(place), lambda: "")


def seal(root: Path, *, by_hand: bool = True) -> Sealed:
    """Make a release below ``root``; with ``by_hand`` the library that signs folders is not asked (nor loaded)."""
    keys = {name: key(root / f"{name}.pem") for name in ("lab", "other", "stranger")}
    folder = root / "release"
    write(folder, "model.safetensors", b"weights" * 100)
    write(folder, "config.json", b"{}\n")
    for name, payload in stages().items():
        write(folder, f"provenance/stages/{name}.dsse.json", sign(IN_TOTO, payload, keys["lab"]).encode())
    write(folder, "provenance/attestations/other.dsse.json", attestation(keys["other"]).encode())
    state(folder, TERMS, keys["lab"], by_hand=by_hand)
    return Sealed(folder=folder, **keys)


def state(folder: Path, terms: Terms, by: Key, *, by_hand: bool = True) -> ReleaseStatement:
    """Write the release statement over what lies in the folder, and sign the whole."""
    for name in (STATEMENT, SIGNATURE):
        (folder / name).unlink(missing_ok=True)
    files = {entry.path: entry.digest for entry in ReleaseFolder(root=folder).entries()}
    statement = ReleaseStatement(terms=terms, files=files)
    write(folder, STATEMENT, sign(IN_TOTO, statement.payload, by).encode())
    if by_hand:
        write(folder, SIGNATURE, model_sig(folder, by))
    else:
        sign_folder(folder, by)
    return statement


def model_sig(folder: Path, by: Key) -> bytes:
    """A ``model.sig`` in the form in which the library writes it."""
    files = {entry.path: entry.digest for entry in ReleaseFolder(root=folder).entries()}
    total = sha256(b"".join(bytes.fromhex(one.hex) for one in files.values()))
    way = {"method": "files", "hash_type": "sha256", "allow_symlinks": False, "ignore_paths": list(IGNORED)}
    listed = [{"name": path, "algorithm": "sha256", "digest": one.hex} for path, one in files.items()]
    statement = Statement(
        subjects=(Subject.of_bytes("release", total),),
        predicate_type="https://model_signing/signature/v1.0",
        predicate={"serialization": way, "resources": listed},
    )
    envelope = sign(IN_TOTO, statement.encode(), by).to_json()
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": by.public_key.hint}},
        "dsseEnvelope": {**envelope, "signatures": [{"sig": envelope["signatures"][0]["sig"], "keyid": ""}]},
    }
    return canonical.encode(bundle)


def attestation(by: Key, word: Rederivation = WORD) -> Envelope:
    """A third party's word."""
    return sign(IN_TOTO, word.statement(PRODUCT).encode(), by)


def stages() -> Mapping[str, bytes]:
    """Statements of two stages: the export is made of the data."""
    data = {"name": "artifacts/data", "digest": {"reckonTree": sha256(b"data").hex}}
    made = {"name": "artifacts/export", "digest": {"reckonTree": sha256(b"tree").hex}}
    return {"data": _stage(data, [], sha256(b"other")), "export": _stage(made, [data], PRODUCT_DIGEST)}


def _stage(subject: Mapping[str, object], dependencies: Sequence[object], product: Digest) -> bytes:
    byproduct = {"name": f"manifests/products/{product.hex}.json", "digest": {"sha256": product.hex}}
    return canonical.encode(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [subject],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {"resolvedDependencies": list(dependencies)},
                "runDetails": {"byproducts": [byproduct]},
            },
        }
    )


def write(folder: Path, path: str, data: bytes) -> None:
    """Put a file into a folder."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(data)


def check(folder: Path, policy: TrustPolicy | None = None, **expected: object) -> Trusted:
    """Check a release in a folder."""
    found = ReleaseFolder(root=folder)
    checker = TrustChecker(verify=verify, policy=policy)
    return checker.check(found.entries(), found.read, replace(Expected(), **expected))


def texts(trusted: Trusted) -> list[str]:
    """What is wrong, in words."""
    return [finding.text for finding in trusted.verdict.findings]
