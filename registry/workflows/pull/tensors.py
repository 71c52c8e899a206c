"""Bringing single tensors: their own bytes, the header of the file they lie in, and the table that proves them.

Leaves come from the release's bundle, of which the end is fetched until the table of the signed tensor root is in it;
the table adds up to that root or is refused. Each tensor is read back from the disk and hashed before the excerpt gets
its name. Refuses repositories that nobody signed: a part of a file cannot be held against a digest of the whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from registry.core.bundle import BLOCK_BYTES, Member, member
from registry.core.digests import Algorithm, Digest, record_digest
from registry.core.excerpt import Excerpt, Placed, excerpt
from registry.core.pulling import Listing, RemoteFile, matching_names
from registry.core.release import BUNDLE
from registry.core.safetensors import PREFIX_BYTES, header_bytes, parse_header
from registry.core.tensors import Chunker, ChunkList, Leaf
from registry.errors import DoesNotHold, MalformedRecord, Refused
from registry.ports import Arriving, Landing
from registry.workflows.pull.files import Pulled, Puller, pinned
from registry.workflows.pull.looking import Looked, small

FILE: Final = "tensors.safetensors"
_SUFFIX: Final = ".safetensors"
_INDEX: Final = ".safetensors.index.json"
_HEAD_BYTES: Final = 16 * 2**10
_TAIL_BYTES: Final = 64 * 2**10
_MOST_TAIL_BYTES: Final = 256 * 2**20
_READ_BYTES: Final = 4 * 2**20
# The bytes of a leaf table and the root that they must add up to -> the leaves
ReadLeaves: TypeAlias = Callable[[bytes, Digest], Sequence[Leaf]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPuller:
    """Brings tensors of a revision whose tensor root somebody answers for. ``release`` holds the bundle with its table.

    ``looked`` is where the tensors lie: the release itself, or a checkpoint of it.
    """

    puller: Puller
    read_leaves: ReadLeaves

    def pull(
        self, release: Looked, looked: Looked, root: Digest | None, globs: Sequence[str], landing: Landing
    ) -> Pulled:
        """Bring the tensors that ``globs`` match into ``FILE``. ``root`` is a checkpoint's, None the release's own.

        Raises ``UnknownName`` for a pattern that matches none, ``DoesNotHold`` for a tensor that is not its leaf.
        """
        pinned(looked, landing)
        leaves = {leaf.name: leaf for leaf in self._leaves(release, root)}
        names = matching_names(globs, leaves)
        wanted = excerpt([self._placed(one, leaves) for one in self._found(looked, names)])
        fetched, resumed, came = self._brought(looked.listing, wanted, leaves, landing)
        self.puller.settle(looked)
        return Pulled(
            commit=looked.resolved.commit,
            landed=names if came else (),
            kept=() if came else names,
            fetched_bytes=fetched,
            resumed_bytes=resumed,
            tensors=True,
        )

    def _leaves(self, release: Looked, root: Digest | None) -> Sequence[Leaf]:
        if release.signed is None:
            raise Refused(
                f"{release.reference} is no signed release, so nothing proves a single tensor of it.",
                remedy="Pull whole files, or name a release.",
            )
        root = root or release.signed.statement.weights.root
        bundle = release.listing.need(BUNDLE)
        name = f"manifests/tensors/{root.hex}.parquet"
        return self.read_leaves(self._member(release.listing, bundle, name), root)

    def _member(self, listing: Listing, bundle: RemoteFile, name: str) -> bytes:
        """A member of the bundle, found from its end: tables of tensors are among the last."""
        start, tail, step = bundle.size_bytes, b"", _TAIL_BYTES
        while start > 0 and len(tail) < _MOST_TAIL_BYTES:
            before = max(0, start - step) // BLOCK_BYTES * BLOCK_BYTES
            tail = self._bytes(listing, bundle, before, start) + tail
            start, step = before, step * 2
            found = _search(tail, name)
            if found is not None:
                return found
        raise DoesNotHold(f"The bundle of {listing.reference} has no table {name}, so nothing proves a single tensor.")

    def _found(self, looked: Looked, names: Sequence[str]) -> Iterator[Placed]:
        """Where each tensor lies, from the headers of the files that hold them."""
        missing = set(names)
        for file in self._holders(looked, names):
            for one in self._header(looked.listing, file):
                if one.spec.name in missing:
                    missing.discard(one.spec.name)
                    yield one
        if missing:
            raise DoesNotHold(f"The tensor {min(missing)!r} is signed, and no file of {looked.reference} has it.")

    def _holders(self, looked: Looked, names: Sequence[str]) -> Sequence[RemoteFile]:
        """The files that hold the tensors, by the index if there is one, else every safetensors file."""
        files = {file.path: file for file in looked.listing.files if file.path.endswith(_SUFFIX)}
        index = next((file.path for file in looked.listing.files if file.path.endswith(_INDEX)), None)
        if index is None:
            return list(files.values())
        told = _weight_map(small(self.puller.origin, looked.listing, index))
        held = {told.get(name, "") for name in names}
        if not held <= files.keys():
            raise DoesNotHold(f"{index} of {looked.reference} names files that are not there.")
        return [files[path] for path in sorted(held)]

    def _header(self, listing: Listing, file: RemoteFile) -> Iterator[Placed]:
        head = self._bytes(listing, file, 0, min(_HEAD_BYTES, file.size_bytes))
        stop = PREFIX_BYTES + header_bytes(head[:PREFIX_BYTES], file.size_bytes)
        head += self._bytes(listing, file, len(head), max(stop, len(head)))
        for one in parse_header(head[PREFIX_BYTES:stop], file.size_bytes).tensors:
            yield Placed(spec=one.spec, path=file.path, start_byte=one.start_byte)

    def _placed(self, one: Placed, leaves: Mapping[str, Leaf]) -> Placed:
        leaf = leaves[one.spec.name]
        if leaf.spec != one.spec:
            raise DoesNotHold(
                f"The tensor {leaf.name!r} is {one.spec.dtype} {list(one.spec.shape)} here, and was signed as "
                f"{leaf.dtype} {list(leaf.shape)}."
            )
        return one

    def _brought(
        self, listing: Listing, wanted: Excerpt, leaves: Mapping[str, Leaf], landing: Landing
    ) -> tuple[int, int, bool]:
        """Fill the excerpt, read it back, land it. Bytes fetched, bytes resumed, and whether it was not here yet."""
        file = _file(wanted, leaves)
        with landing.arriving(file) as arriving:
            resumed = arriving.size_bytes
            fetched = self._fill(listing, wanted, arriving)
            wrong = next(_wrong(wanted, leaves, arriving), None)
            if wrong is not None and resumed:
                resumed = 0
                arriving.restart()
                fetched += self._fill(listing, wanted, arriving)
                wrong = next(_wrong(wanted, leaves, arriving), None)
            if wrong is not None:
                arriving.restart()
                raise _altered(wrong, self.puller.origin.where)
            held = landing.held(file)
            if held is None:
                arriving.land()
            elif held.sha256 != arriving.observed().sha256:
                raise Refused(
                    f"{FILE} lies here with other tensors or bytes.",
                    remedy="Take it away, or pull into another folder.",
                )
        return fetched, resumed, held is None

    def _fill(self, listing: Listing, wanted: Excerpt, arriving: Arriving) -> int:
        """Bring what is not here yet; the bytes fetched."""
        before = arriving.size_bytes
        for piece in self._rest(listing, wanted, before):
            arriving.write(piece)
            self.puller.advance(len(piece))
        return arriving.size_bytes - before

    def _rest(self, listing: Listing, wanted: Excerpt, start_byte: int) -> Iterator[bytes]:
        """The bytes of the excerpt from a position on."""
        header = wanted.header
        if start_byte < len(header):
            yield header[start_byte:]
        for position, one in wanted.places():
            done = max(0, start_byte - position)
            if done < one.spec.size_bytes:
                file = listing.need(one.path)
                begin, stop = one.start_byte + done, one.start_byte + one.spec.size_bytes
                yield from self.puller.origin.read(listing, file, begin, stop)

    def _bytes(self, listing: Listing, file: RemoteFile, start_byte: int, stop_byte: int) -> bytes:
        return b"".join(self.puller.origin.read(listing, file, start_byte, stop_byte))


def _search(tail: bytes, name: str) -> bytes | None:
    """The member of that name, when its header is in the last bytes of a bundle. The caller proves the bytes."""
    wanted = name.encode() + b"\0"
    for at in range(0, len(tail) - BLOCK_BYTES + 1, BLOCK_BYTES):
        if tail.startswith(wanted, at):
            try:
                found: Member = member(tail[at : at + BLOCK_BYTES])
            except MalformedRecord:
                continue
            return tail[at + BLOCK_BYTES : at + BLOCK_BYTES + found.size_bytes]
    return None


def _weight_map(data: bytes) -> Mapping[str, str]:
    try:
        index = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord("The index of the weights is no JSON.") from error
    told = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(told, dict) or not all(isinstance(path, str) for path in told.values()):
        raise MalformedRecord("The index of the weights has no map from tensors to files.")
    return told


def _file(wanted: Excerpt, leaves: Mapping[str, Leaf]) -> RemoteFile:
    """The excerpt as a file on its way. It is known by what is to be in it, since nobody has its bytes yet."""
    rows = [str(leaves[one.spec.name].digest) for one in wanted.tensors]
    key = record_digest({"kind": "excerpt", "schema": 1, "leaves": rows})
    return RemoteFile(path=FILE, size_bytes=wanted.size_bytes, claimed=Digest(Algorithm.SHA256, key.hex))


def _wrong(wanted: Excerpt, leaves: Mapping[str, Leaf], arriving: Arriving) -> Iterator[str]:
    """The tensors in what came, read back, that are not their leaves. A header that is another spoils all of them."""
    header = wanted.header
    if arriving.read(0, len(header)) != header:
        yield from leaves.keys() & {one.spec.name for one in wanted.tensors}
    for position, one in wanted.places():
        chunker = Chunker()
        for start in range(position, position + one.spec.size_bytes, _READ_BYTES):
            chunker.update(arriving.read(start, min(start + _READ_BYTES, position + one.spec.size_bytes)))
        digests = tuple(chunker.finish())
        if (
            len(digests) != one.spec.chunk_count
            or ChunkList(spec=one.spec, digests=digests).leaf != leaves[one.spec.name]
        ):
            yield one.spec.name


def _altered(name: str, where: str) -> DoesNotHold:
    return DoesNotHold(
        f"The tensor {name!r} from {where} is not the one that was signed.",
        remedy="Nothing was kept of it. Pull again; if it stays so, do not use this repository.",
    )
