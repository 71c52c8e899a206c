"""Pinned wheels as data: which ones, are these their bytes, and the text members in them.

A wheel is never imported, run or unpacked to disk: members are read from the zip in memory. Refuses bytes with another
hash, another project or version, another licence, members with paths that leave the wheel, two of one name, encrypted
ones, and any member or wheel over a limit (a small zip can claim to hold terabytes).
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Self

from registry.core.canonical import Json
from registry.core.digests import Algorithm, Digest
from registry.core.names import checked_path
from registry.errors import DoesNotHold, Refused
from train.data import licences
from train.settings import text

MAXIMUM_WHEEL_BYTES = 128 * 2**20
MAXIMUM_MEMBERS = 50_000
MAXIMUM_MEMBER_BYTES = 16 * 2**20
MAXIMUM_TEXT_BYTES = 256 * 2**20

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_VERSION = re.compile(r"[0-9][0-9a-z.]*")
_DOMAIN = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A pin: one pure-Python wheel by name, version and SHA-256, with its licence (SPDX) and the domain it serves."""

    name: str
    version: str
    sha256: str
    licence: str
    domain: str

    def __post_init__(self) -> None:
        for pattern, value in ((_NAME, self.name), (_VERSION, self.version), (_DOMAIN, self.domain)):
            if not pattern.fullmatch(value):
                raise Refused(f"{value!r} is not a name, version or domain of a pinned wheel.")
        Digest(Algorithm.SHA256, self.sha256)
        licences.check_permitted(self.licence)

    @property
    def file(self) -> str:
        """The file name that the index gives a pure-Python wheel."""
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"

    def to_json(self) -> dict[str, Json]:
        """The pin as a JSON object."""
        return {
            "name": self.name,
            "version": self.version,
            "sha256": self.sha256,
            "licence": self.licence,
            "domain": self.domain,
        }

    @classmethod
    def read(cls, settings: Mapping[str, Json]) -> Self:
        """Read one pin. Raises ``Refused`` for a field that is missing or malformed."""
        return cls(
            name=text(settings, "name"),
            version=text(settings, "version"),
            sha256=text(settings, "sha256"),
            licence=text(settings, "licence"),
            domain=text(settings, "domain"),
        )


def verified_bytes(wheel: Wheel, path: Path) -> bytes:
    """The bytes of a wheel's file. Raises ``DoesNotHold`` when they are not the pinned ones."""
    if path.stat().st_size > MAXIMUM_WHEEL_BYTES:
        raise DoesNotHold(f"{path} is over the limit of {MAXIMUM_WHEEL_BYTES} bytes for a wheel.")
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != wheel.sha256:
        raise DoesNotHold(
            f"{path} has the SHA-256 {found}, but {wheel.name} {wheel.version} is pinned to {wheel.sha256}.",
            remedy="Delete the file and fetch it again. If it stays, somebody changed the wheel or the pin.",
        )
    return data


def open_wheel(wheel: Wheel, data: bytes) -> zipfile.ZipFile:
    """The zip of a verified wheel, its table of contents and metadata checked. Raises ``DoesNotHold``."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DoesNotHold(f"{wheel.file} is not a wheel: {error}.") from error
    _check_table(wheel, archive.infolist())
    metadata = wheel_metadata(wheel, archive)
    _check_identity(wheel, metadata)
    licences.check_stated(metadata, wheel.licence, wheel.file)
    return archive


def wheel_metadata(wheel: Wheel, archive: zipfile.ZipFile) -> Message:
    """The wheel's METADATA; its payload is the project's long description."""
    found = [info for info in archive.infolist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", info.filename)]
    if len(found) != 1:
        raise DoesNotHold(f"{wheel.file} has {len(found)} METADATA files; a wheel has one.")
    return BytesParser().parsebytes(read_member(archive, found[0]))


def members(archive: zipfile.ZipFile, suffixes: tuple[str, ...], skip: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of the members with one of ``suffixes``, in the order of their paths.

    Leaves out the metadata folders and every folder whose name is in ``skip``.
    """
    for info in sorted(archive.infolist(), key=lambda item: item.filename):
        folders = info.filename.split("/")[:-1]
        hidden = any(name in skip or name.endswith((".dist-info", ".data")) for name in folders)
        if info.filename.endswith(suffixes) and not hidden:
            yield info.filename, read_member(archive, info)


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of one member. Raises ``DoesNotHold`` when they are damaged or over the limit."""
    try:
        with archive.open(info) as file:
            data = file.read(MAXIMUM_MEMBER_BYTES + 1)
            overlong = len(data) > MAXIMUM_MEMBER_BYTES or bool(file.read(1))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DoesNotHold(f"The member {info.filename!r} of a wheel cannot be read: {error}.") from error
    if overlong:
        raise DoesNotHold(f"The member {info.filename!r} of a wheel is over {MAXIMUM_MEMBER_BYTES} bytes.")
    return data


def _check_table(wheel: Wheel, table: list[zipfile.ZipInfo]) -> None:
    if len(table) > MAXIMUM_MEMBERS or sum(info.file_size for info in table) > MAXIMUM_TEXT_BYTES:
        raise DoesNotHold(
            f"{wheel.file} claims over {MAXIMUM_MEMBERS} members or {MAXIMUM_TEXT_BYTES} bytes; it is not read."
        )
    if len({info.filename for info in table}) != len(table):
        raise DoesNotHold(f"{wheel.file} has two members of one name.")
    for info in table:
        try:
            checked_path(info.filename.removesuffix("/"))
        except Refused as error:
            raise DoesNotHold(f"{wheel.file} has a member that would leave its folder: {error.message}") from error


def _check_identity(wheel: Wheel, metadata: Message) -> None:
    name = re.sub(r"[-_.]+", "-", str(metadata.get("Name", ""))).lower()
    version = str(metadata.get("Version", ""))
    if (name, version) != (wheel.name, wheel.version):
        raise DoesNotHold(f"{wheel.file} says that it is {name} {version}.")
