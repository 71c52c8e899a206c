"""Documents in a component's stream of tokens: which of them lie in a sequence, and which sequences hold one.

Documents stand one after the other, and a sequence is a fixed number of consecutive tokens, so offsets alone say what
a sequence is made of. Pure. Refuses a table whose documents leave a gap, overlap or have no tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from registry.errors import DoesNotHold


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The tokens ``first`` up to ``stop`` of the document at ``index``, which lie in a sequence."""

    index: int
    first: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The documents of a stream in their order: id, shard, row there, where the tokens begin, and how many they are."""

    ids: Sequence[str]
    shards: Sequence[str]
    rows: Sequence[int]
    offsets: Sequence[int]
    tokens: Sequence[int]

    def __post_init__(self) -> None:
        columns = (self.shards, self.rows, self.offsets, self.tokens)
        whole = all(len(column) == len(self.ids) for column in columns)
        begin = not self.offsets or self.offsets[0] == 0
        ends = [offset + tokens for offset, tokens in zip(self.offsets, self.tokens, strict=True)] if whole else []
        joined = all(end == offset for end, offset in zip(ends, self.offsets[1:], strict=False))
        if not (whole and begin and joined and min(self.tokens, default=1) > 0):
            raise DoesNotHold(
                "A table of documents leaves gaps in its stream of tokens.",
                remedy="Restore it with 'dvc checkout', or run the stage 'tokens' again.",
            )

    @property
    def stream_tokens(self) -> int:
        """The length of the stream."""
        return self.offsets[-1] + self.tokens[-1] if self.offsets else 0

    def pieces(self, sequence: int, length: int) -> Iterator[Piece]:
        """What a sequence of ``length`` tokens is made of, in order."""
        begin, end = sequence * length, (sequence + 1) * length
        for index in range(bisect_right(self.offsets, begin) - 1, bisect_left(self.offsets, end)):
            offset, tokens = self.offsets[index], self.tokens[index]
            first, stop = max(begin - offset, 0), min(end - offset, tokens)
            if first < stop:
                yield Piece(index=index, first=first, stop=stop)

    def sequences(self, index: int, length: int) -> range:
        """The sequences of ``length`` tokens that hold a token of a document; a last incomplete one is none."""
        offset, tokens = self.offsets[index], self.tokens[index]
        whole = self.stream_tokens // length
        return range(min(offset // length, whole), min((offset + tokens - 1) // length + 1, whole))

    def beginning(self, prefix: str) -> list[int]:
        """The documents whose id begins with these hex digits."""
        low = bisect_left(self._sorted, (prefix,))
        high = bisect_left(self._sorted, (prefix + "g",))
        return [index for _, index in self._sorted[low:high]]

    @cached_property
    def _sorted(self) -> list[tuple[str, int]]:
        return sorted((one, index) for index, one in enumerate(self.ids))


def ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as runs without a gap, first and last included."""
    if not numbers:
        return []
    cuts = [at for at, (one, after) in enumerate(pairwise(numbers), start=1) if after > one + 1]
    return [(numbers[start], numbers[stop - 1]) for start, stop in pairwise([0, *cuts, len(numbers)])]
