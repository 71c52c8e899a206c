"""The transcript of a training run: one line a step, exact bits, append-only.

A line is canonical JSON with ``gradient_norm`` and ``loss`` (the bits of a 32-bit float, 8 hex digits), ``order`` (the
chained digest of what was fed so far), ``state`` (fingerprint of the whole training state after the step, two lanes of
32 bits) and ``step`` (completed updates). Pure. The reader refuses anything that :func:`line` would not write, steps
that do not follow one another, and files over a limit; a last line without its newline was torn by a kill and is told.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

from registry.errors import DoesNotHold, MalformedRecord

MAXIMUM_BYTES: Final = 512 * 2**20
LARGEST_STEP: Final = 2**48

_LINE = re.compile(
    rb'\{"gradient_norm":"([0-9a-f]{8})","loss":"([0-9a-f]{8})","order":"([0-9a-f]{64})","state":"([0-9a-f]{16})",'
    rb'"step":([1-9][0-9]{0,14})\}'
)
_WHOLE = re.compile(rb"(?:" + re.sub(rb"\((?!\?)", b"(?:", _LINE.pattern) + rb"\n)*+")
_STEP = re.compile(rb'"step":([1-9][0-9]{0,14})\}\n')


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One completed step. ``loss`` and ``gradient_norm`` are bits of 32-bit floats, ``order`` and ``state`` hex."""

    step: int
    loss: int
    gradient_norm: int
    order: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Lines of consecutive steps. ``torn`` says that a last line had no end."""

    lines: tuple[Line, ...]
    torn: bool = False

    @property
    def first(self) -> int | None:
        """The first step, or None when there is none."""
        return self.lines[0].step if self.lines else None

    @property
    def last(self) -> int | None:
        """The last step, or None when there is none."""
        return self.lines[-1].step if self.lines else None

    def at(self, step: int) -> Line | None:
        """The line of a step, or None."""
        index = step - self.lines[0].step if self.lines else -1
        return self.lines[index] if 0 <= index < len(self.lines) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first step at which two transcripts part, and the fields that differ there."""

    step: int
    fields: tuple[str, ...]
    left: Line
    right: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two transcripts over the steps that both have. ``compared`` may be zero, and then nothing was shown."""

    compared: int
    only_left: int
    only_right: int
    difference: Difference | None

    @property
    def equal(self) -> bool:
        """Both have the same steps and agree on every one; at least one."""
        return self.compared > 0 and self.difference is None and not self.only_left and not self.only_right


def line(value: Line) -> bytes:
    """The canonical bytes of a line, with its newline. Raises ``MalformedRecord`` for values out of range."""
    data = (
        f'{{"gradient_norm":"{value.gradient_norm:08x}","loss":"{value.loss:08x}","order":"{value.order}",'
        f'"state":"{value.state}","step":{value.step}}}'
    ).encode()
    if not _LINE.fullmatch(data):
        raise MalformedRecord(f"Step {value.step} of a transcript has a value out of range.")
    return data + b"\n"


def parse(data: bytes) -> Transcript:
    """Read a transcript.

    Raises ``MalformedRecord`` naming the line for anything that :func:`line` would not write, and for a step that does
    not follow the one before.
    """
    if len(data) > MAXIMUM_BYTES:
        raise MalformedRecord(f"A transcript of {len(data)} bytes is over the limit of {MAXIMUM_BYTES}.")
    whole, _, rest = data.rpartition(b"\n")
    lines = tuple(_lines(whole)) if whole else ()
    if not whole and data.startswith(b"\n"):
        raise MalformedRecord("Line 1 of the transcript is not a line.")
    return Transcript(lines=lines, torn=bool(rest))


def span(data: bytes) -> tuple[int, int] | None:
    """The first and last step of a whole transcript, or None when it is empty; in a tenth of the time of :func:`parse`.

    Raises ``MalformedRecord`` for everything that :func:`parse` refuses, and for a torn last line.
    """
    if len(data) <= MAXIMUM_BYTES and _WHOLE.fullmatch(data):
        steps = list(map(int, _STEP.findall(data)))
        if not steps:
            return None
        if steps == list(range(steps[0], steps[0] + len(steps))) and steps[-1] <= LARGEST_STEP:
            return steps[0], steps[-1]
    read = parse(data)
    if read.torn or read.first is None or read.last is None:
        raise MalformedRecord("The transcript ends in the middle of a line.")
    return read.first, read.last


def compare(left: Transcript, right: Transcript) -> Comparison:
    """Compare the steps that both have, and name the first at which they differ."""
    if not left.lines or not right.lines:
        return Comparison(compared=0, only_left=len(left.lines), only_right=len(right.lines), difference=None)
    start = max(left.lines[0].step, right.lines[0].step)
    stop = min(left.lines[-1].step, right.lines[-1].step) + 1
    shared = max(0, stop - start)
    mine = left.lines[start - left.lines[0].step :][:shared]
    theirs = right.lines[start - right.lines[0].step :][:shared]
    return Comparison(
        compared=shared,
        only_left=len(left.lines) - shared,
        only_right=len(right.lines) - shared,
        difference=_first_difference(mine, theirs),
    )


def merge(segments: Sequence[Transcript]) -> Transcript:
    """One transcript of a run from its segments in order.

    Raises ``DoesNotHold`` when a step is missing between two segments, or told by both.
    """
    lines: list[Line] = []
    for segment in segments:
        if lines and segment.lines and segment.lines[0].step != lines[-1].step + 1:
            raise DoesNotHold(
                f"A segment that begins at step {segment.lines[0].step} does not follow step {lines[-1].step}.",
                remedy="Give the segments in order; a gap or an overlap means that one of them is not of this run.",
            )
        lines.extend(segment.lines)
    return Transcript(lines=tuple(lines), torn=any(segment.torn for segment in segments))


def chain(previous: str, examples: bytes, tokens: bytes) -> str:
    """The order digest after one more batch.

    ``examples`` are the batch's example ids, one row (component, sequence index) as two little-endian uint32 each, and
    ``tokens`` its token ids as little-endian int32 in C order.
    """
    fed = hashlib.sha256(examples).digest() + hashlib.sha256(tokens).digest()
    return hashlib.sha256(bytes.fromhex(previous) + fed).hexdigest()


def bits(value: float) -> int:
    """The bits of ``value`` as a 32-bit float. Infinities and NaN have bits too."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError as error:
        raise MalformedRecord(f"{value} is not a 32-bit float.") from error
    return int(struct.unpack("<I", packed)[0])


def number(value: int) -> float:
    """The 32-bit float with these bits."""
    return float(struct.unpack("<f", struct.pack("<I", value))[0])


def _lines(data: bytes) -> Iterator[Line]:
    previous: int | None = None
    for index, text in enumerate(data.split(b"\n"), start=1):
        match = _LINE.fullmatch(text)
        if match is None:
            raise MalformedRecord(f"Line {index} of the transcript is not a line.")
        step = int(match[5])
        if step > LARGEST_STEP or (previous is not None and step != previous + 1):
            raise MalformedRecord(
                f"Line {index} of the transcript is of step {step}, which does not follow {previous}."
            )
        previous = step
        yield Line(
            step=step,
            gradient_norm=int(match[1], 16),
            loss=int(match[2], 16),
            order=match[3].decode(),
            state=match[4].decode(),
        )


def _first_difference(left: Sequence[Line], right: Sequence[Line]) -> Difference | None:
    for mine, theirs in zip(left, right, strict=True):
        if mine != theirs:
            names = tuple(one.name for one in fields(Line) if getattr(mine, one.name) != getattr(theirs, one.name))
            return Difference(step=mine.step, fields=names, left=mine, right=theirs)
    return None
