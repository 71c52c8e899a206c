"""The check of a release by its signatures: who signed it, that it is what it says, and that its files are those.

It needs the small files and a list of all files with their SHA-256, so that a release is judged before its weights are
fetched, and again when they lie here. Whoever asks for a certain name, version, repository or predecessor says so, and
an old release under a new name does not pass. Refuses nothing by itself: what is wrong are findings. A good signature
of a key that nobody vouches for holds, and is told as by an unknown key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from registry.core import provenance
from registry.core.attestation import Attested, Rederivation
from registry.core.canonical import Json
from registry.core.digests import Algorithm, Digest, FileEntry, sha256
from registry.core.dsse import Envelope
from registry.core.findings import Finding, Trouble, Verdict
from registry.core.modelsig import SIGNATURE, ModelSignature
from registry.core.notices import Notice
from registry.core.publickeys import PublicKey
from registry.core.release import ATTESTATIONS, PAYLOAD_TYPE, STAGES, STATEMENT, ReleaseStatement
from registry.core.trust import Act, Judgement, TrustPolicy, without_policy
from registry.errors import DoesNotHold, ReckonError

Read: TypeAlias = Callable[[str], bytes]
Verify: TypeAlias = Callable[[Envelope, PublicKey], None]
_PRODUCT: Final = "manifests/products/"
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the caller asked for; None where any will do. ``parent`` is the digest of the release that stood before."""

    name: str | None = None
    version: str | None = None
    repository: str | None = None
    parent: Digest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A release whose signatures are good: its statement, who signed, what the policy says, and the signed files."""

    statement: ReleaseStatement
    key: PublicKey
    judgement: Judgement
    signature: ModelSignature

    @property
    def files(self) -> Mapping[str, Digest]:
        """Every file by path, but ``model.sig``."""
        return self.signature.files


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """The outcome. ``signed`` is None where the signatures are not good; ``attested`` are re-derivations by others."""

    signed: Signed | None
    attested: tuple[Attested, ...]
    verdict: Verdict

    @property
    def holds(self) -> bool:
        """Whether something was checked and nothing is wrong."""
        return self.verdict.holds

    @property
    def says(self) -> str:
        """Who answers for the release, in a few words."""
        return "not attested" if self.signed is None else self.signed.judgement.text


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustChecker:
    """Checks releases. ``policy`` is None where nobody said whom to trust."""

    verify: Verify
    policy: TrustPolicy | None

    def seals(self, read: Read, expected: Expected | None = None) -> tuple[Signed | None, tuple[Finding, ...]]:
        """The two signatures of a release, from ``model.sig`` and the release statement alone.

        ``read`` gives the bytes of a file by its path in the release. No other file is looked at.
        """
        try:
            statement_bytes = read(STATEMENT)
            envelope = Envelope.parse(statement_bytes)
            envelope.view(PAYLOAD_TYPE)
            statement = ReleaseStatement.parse(envelope.payload)
            signature = ModelSignature.parse(read(SIGNATURE))
        except ReckonError as error:
            return None, (_finding(Trouble.SIGNATURE, f"The release is not signed as a release is: {error.message}"),)
        key = self._key(envelope)
        if key is None:
            text = "The release statement does not say by which key it is, and no trust policy knows it."
            return None, (_finding(Trouble.SIGNATURE, text, STATEMENT),)
        wrong = [*self._signatures(envelope, signature, key), *_bound(statement, signature, sha256(statement_bytes))]
        if wrong:
            return None, tuple(wrong)
        judgement = self._judge(key.id, statement)
        signed = Signed(statement=statement, key=key, judgement=judgement, signature=signature)
        refused = [] if judgement.accepted else [_finding(Trouble.TRUST, judgement.text, STATEMENT)]
        return signed, (*refused, *_as_expected(statement, expected or Expected()))

    def check(self, entries: Sequence[FileEntry], read: Read, expected: Expected | None = None) -> Trusted:
        """Check a whole release: its signatures, every file by its SHA-256, the stages' statements, attestations.

        ``entries`` are all files that lie there or that a hub lists; what a signature does not cover is left out.
        """
        signed, findings = self.seals(read, expected)
        if signed is None:
            return Trusted(signed=None, attested=(), verdict=Verdict(checked=len(findings), findings=findings))
        subject = str(signed.statement.identity)
        differences = tuple(signed.signature.differences(entries, subject))
        inside = _Inside(self, signed, _hashed(read, signed))
        attested, damaged = inside.attestations()
        every = (*findings, *differences, *inside.stages(), *damaged)
        return Trusted(
            signed=signed,
            attested=attested,
            verdict=Verdict(
                checked=len(signed.files) + 2, findings=tuple(replace(one, subject=subject) for one in every)
            ),
        )

    def attested(self, source: str, envelope: Envelope) -> Attested:
        """An attestation with its signature checked. Raises ``MalformedRecord`` when it is none."""
        said = Rederivation.of(envelope)
        key = self._key(envelope)
        if key is None:
            text = f"{source} does not say by which key it is, and no trust policy knows it."
            return Attested(source=source, envelope=envelope, rederivation=said, key_id="", judgement=None, damage=text)
        try:
            self.verify(envelope, key)
        except ReckonError as error:
            text = f"{source}: {error.message}"
            return Attested(
                source=source, envelope=envelope, rederivation=said, key_id=key.id, judgement=None, damage=text
            )
        judgement = (
            without_policy(key.id)
            if self.policy is None
            else self.policy.judge(key.id, said.stage, said.time, Act.ATTEST, envelope.digest)
        )
        return Attested(source=source, envelope=envelope, rederivation=said, key_id=key.id, judgement=judgement)

    def noticed(self, notice: Notice) -> str:
        """Who answers for a notice, as a sentence: whom it is attested by, or why nobody does."""
        if notice.envelope is None:
            return "The notice is unsigned: whoever may write to the repository or to the records can say so."
        key = self._key(notice.envelope)
        if key is None:
            return "The notice does not say by which key it is, and no trust policy knows it."
        try:
            self.verify(notice.envelope, key)
        except ReckonError as error:
            return f"The signature of the notice does not hold: {error.message}"
        if self.policy is None:
            return f"The notice is {without_policy(key.id).text}."
        judged = self.policy.judge(key.id, notice.identity.name, notice.time, Act.RELEASE, notice.envelope.digest)
        return f"The notice is {judged.text}." if judged.accepted else f"Do not rely on the notice: {judged.text}"

    def _judge(self, key_id: str, statement: ReleaseStatement) -> Judgement:
        if self.policy is None:
            return without_policy(key_id)
        return self.policy.judge(key_id, statement.identity.name, statement.terms.time, Act.RELEASE, statement.digest)

    def _key(self, envelope: Envelope) -> PublicKey | None:
        """The key of an envelope's only signature: beside it, else in the policy under the name that it gives."""
        if len(envelope.signatures) != 1:
            return None
        [signature] = envelope.signatures
        if signature.public_key is not None:
            return signature.public_key
        known = None if self.policy is None else self.policy.keys.get(signature.key_id)
        return None if known is None else known.public_key

    def _signatures(self, envelope: Envelope, signature: ModelSignature, key: PublicKey) -> Iterator[Finding]:
        if signature.hint != key.hint:
            yield _finding(Trouble.SIGNATURE, f"{SIGNATURE} is by another key than the release statement.", SIGNATURE)
        for path, one in ((STATEMENT, envelope), (SIGNATURE, signature.envelope)):
            try:
                self.verify(one, key)
            except ReckonError as error:
                yield _finding(Trouble.SIGNATURE, f"{path}: {error.message}", path)


@dataclass(frozen=True, slots=True)
class _Inside:
    """What lies in a release beside the weights: the statements of stages and of third parties."""

    checker: TrustChecker
    signed: Signed
    read: Read

    def stages(self) -> Iterator[Finding]:
        """Each stage's statement is signed by the release's key, they are a chain, and it ends in the product."""
        told: list[Mapping[str, Json]] = []
        for path in self._paths(STAGES):
            try:
                envelope = Envelope.parse(self.read(path))
                self.checker.verify(envelope, self.signed.key)
                told.append(envelope.view())
            except ReckonError as error:
                yield _finding(Trouble.SIGNATURE, f"{path}: {error.message}", path)
        for gap in provenance.broken(told):
            yield _finding(Trouble.REFERENCE, gap, STAGES)
        product = self.signed.statement.terms.product
        if product not in _products(told):
            text = f"No stage's statement tells of the released product {product.short}."
            yield _finding(Trouble.REFERENCE, text, STAGES)

    def attestations(self) -> tuple[tuple[Attested, ...], tuple[Finding, ...]]:
        """Attestations of third parties, and what is wrong with those that are none or that nobody signed."""
        found, wrong = [], []
        for path in self._paths(ATTESTATIONS):
            try:
                one = self.checker.attested(path, Envelope.parse(self.read(path)))
            except ReckonError as error:
                wrong.append(_finding(Trouble.SIGNATURE, f"{path}: {error.message}", path))
                continue
            found.append(one)
            if one.damage is not None:
                wrong.append(_finding(Trouble.SIGNATURE, one.damage, path))
        return tuple(found), tuple(wrong)

    def _paths(self, folder: str) -> list[str]:
        return sorted(path for path in self.signed.files if path.startswith(f"{folder}/"))


def _hashed(read: Read, signed: Signed) -> Read:
    """Small files of the release, each held against the signed SHA-256 before anything is made of it."""

    def checked(path: str) -> bytes:
        data = read(path)
        if sha256(data) != signed.files[path]:
            raise DoesNotHold(f"{path} has other bytes than were signed.")
        return data

    return checked


def _bound(statement: ReleaseStatement, signature: ModelSignature, itself: Digest) -> Iterator[Finding]:
    """The two signatures must speak of the same files; else one of them is of another release."""
    stated = {**statement.files, STATEMENT: itself}
    for path in sorted({*stated, *signature.files}):
        ours, theirs = stated.get(path), signature.files.get(path)
        if ours != theirs:
            yield Finding(
                subject=str(statement.identity),
                trouble=Trouble.SIGNATURE,
                path=path,
                recorded=None if ours is None else str(ours),
                found=None if theirs is None else str(theirs),
                text=f"{SIGNATURE} and the release statement speak of different bytes of {path}.",
            )


def _as_expected(statement: ReleaseStatement, expected: Expected) -> Iterator[Finding]:
    """An old or foreign release that is given out as the one that was asked for."""
    identity = statement.identity
    for what in ("name", "version", "repository"):
        wanted, found = getattr(expected, what), getattr(identity, what)
        if wanted is not None and wanted != found:
            text = f"The release says that its {what} is {found}; {wanted} was asked for."
            yield _finding(Trouble.REPLAY, text, STATEMENT, (wanted, found))
    if expected.parent is not None and expected.parent != statement.parent:
        told = "none" if statement.parent is None else str(statement.parent)
        text = f"The release says that it follows {told[:19]}; the release before it is {str(expected.parent)[:19]}."
        yield _finding(Trouble.REPLAY, text, STATEMENT, (str(expected.parent), told))


def _products(told: Sequence[Mapping[str, Json]]) -> set[Digest]:
    """The products that statements of stages name as their by-products."""
    details = (_mapping(_mapping(one.get("predicate")).get("runDetails")) for one in told)
    listed = (one.get("byproducts") for one in details)
    entries = (_mapping(entry) for one in listed if isinstance(one, list) for entry in one)
    hexes = (str(_mapping(one.get("digest")).get("sha256")) for one in entries if _PRODUCT in str(one.get("name")))
    return {Digest(Algorithm.SHA256, one) for one in hexes if _HEX.fullmatch(one)}


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _finding(trouble: Trouble, text: str, path: str = "", sides: tuple[str, str] | None = None) -> Finding:
    recorded, found = sides or (None, None)
    return Finding(subject="release", trouble=trouble, path=path, recorded=recorded, found=found, text=text)
