"""Many small protobuf messages of one kind, read at once: one array per field.

There are two ways with the same result: `wire_jit` compiles the obvious loops with numba (the extra `fast`); without it
the n-th field of all messages is read at once by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.sources.prometheus.answer import Ints

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

PADDING: Final = bytes(64)
"""What stands behind the messages of a buffer, so that a look ahead at the very end stays inside."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadWireError(ValueError):
    """Bytes that are not what they should be."""


@dataclass(frozen=True)
class Packed:
    """Byte strings in one buffer.

    Args:
        buffer: all of them, and PADDING after them.
        starts, ends: of each, in bytes.
    """

    buffer: bytes
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> Packed:
        """Pack them."""
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        ends = np.cumsum(lengths)
        return cls(b"".join([*pieces, PADDING]), ends - lengths, ends)

    @property
    def bytes(self) -> Bytes:
        """The buffer as an array."""
        return np.frombuffer(self.buffer, np.uint8)


Scanner = Callable[[Bytes, Ints, Ints, Ints, Words, Ints, Ints], int]
"""Called with bytes, starts and ends of messages, wanted fields, and the numbers, starts and lengths to fill by field
and message; returns GOOD, TOO_LONG or CUT, else the wire type that is none."""

Finder = Callable[[Bytes, Ints, Ints, Ints, Ints, Ints, Ints, Ints], int]
"""Called with bytes, starts and ends of messages, wanted fields, where the values of each field go, and the counts
by field and message, starts and ends to fill, these only where there is room for them; returns the same."""

GOOD, TOO_LONG, CUT = 0, -1, -2


class Ways(NamedTuple):
    """The two things that are asked of messages, compiled or by NumPy."""

    scan: Scanner
    find: Finder


@dataclass(frozen=True)
class Fields:
    """Values of one field number in every message; those that lack it have 0.

    Args:
        numbers: of a varint or fixed64 field, as 64 bits.
        starts, lengths: of a length-delimited one, in the buffer.
    """

    numbers: Words
    starts: Ints
    lengths: Ints


def scan(packed: Packed, wanted: Sequence[int], *, ways: Ways | None = None) -> dict[int, Fields]:
    """The wanted fields of messages, all of one kind; where a field comes twice the last counts.

    Args:
        ways: None: the fastest that are there.

    Raises:
        BadWireError: a message is cut, or no protobuf.
    """
    shape = (len(wanted), len(packed.starts))
    numbers, starts, lengths = np.zeros(shape, np.uint64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    fields = np.array(wanted, np.int64)
    scanner = (ways or fastest_ways()).scan
    _good(scanner(packed.bytes, packed.starts, packed.ends, fields, numbers, starts, lengths))
    return {field: Fields(numbers[at], starts[at], lengths[at]) for at, field in enumerate(wanted)}


def repeated(packed: Packed, wanted: Sequence[int], *, ways: Ways | None = None) -> list[tuple[Packed, Ints]]:
    """All values of some length-delimited fields, message after message, and how many each message has.

    Args:
        ways: None: the fastest that are there.

    Raises:
        BadWireError: a message is cut, or no protobuf.
    """
    find = (ways or fastest_ways()).find
    fields, nowhere = np.array(wanted, np.int64), np.zeros(0, np.int64)
    counts, into = np.zeros((len(wanted), len(packed.starts)), np.int64), np.zeros(len(wanted), np.int64)
    _good(find(packed.bytes, packed.starts, packed.ends, fields, into, counts, nowhere, nowhere))
    until = np.cumsum(counts.sum(axis=1))
    into[1:] = until[:-1]
    starts, ends = np.empty(int(until[-1]), np.int64), np.empty(int(until[-1]), np.int64)
    if len(starts):
        _good(find(packed.bytes, packed.starts, packed.ends, fields, into, counts, starts, ends))
    parts = [slice(first, last) for first, last in zip(into.tolist(), until.tolist(), strict=True)]
    return [(Packed(packed.buffer, starts[at], ends[at]), own) for at, own in zip(parts, counts, strict=True)]


def _good(found: int) -> None:
    if found == TOO_LONG:
        raise BadWireError("a number of more than ten bytes")
    if found == CUT:
        raise BadWireError("a field is longer than its message")
    if found != GOOD:
        raise BadWireError(f"wire type {found}")


@cache
def fastest_ways() -> Ways:
    """The compiled ones where numba is installed, else those of NumPy."""
    try:
        from pipelines.sources.prometheus import wire_jit  # noqa: PLC0415 - numba takes half a second to load
    except ImportError:
        return IN_STEP
    return Ways(wire_jit.scan_compiled, wire_jit.find_compiled)


def scan_in_step(
    data: Bytes, starts: Ints, ends: Ints, wanted: Ints, numbers: Words, begins: Ints, lengths: Ints
) -> int:
    """Read the n-th field of all messages at once; see `Scanner`."""
    place = {int(field): at for at, field in enumerate(wanted)}
    try:
        for read in _in_step(data, starts, ends):
            mine = place.get(read.field)
            if mine is not None and read.wire_type == _BYTES:
                begins[mine, read.of], lengths[mine, read.of] = read.starts, read.numbers.astype(np.int64)
            elif mine is not None and read.wire_type != _FIXED32:
                numbers[mine, read.of] = read.numbers
    except _Fault as fault:
        return fault.code
    return GOOD


def find_in_step(
    data: Bytes, starts: Ints, ends: Ints, wanted: Ints, into: Ints, counts: Ints, begins: Ints, finishes: Ints
) -> int:
    """Find fields in all messages at once; see `Finder`."""
    place = {int(field): at for at, field in enumerate(wanted)}
    following = into[:, None] + np.cumsum(counts, axis=1) - counts
    counts[:] = 0
    try:
        for read in _in_step(data, starts, ends):
            mine = place.get(read.field)
            if mine is not None and read.wire_type == _BYTES:
                if len(begins):
                    begins[following[mine, read.of]], finishes[following[mine, read.of]] = read.starts, read.after
                following[mine, read.of] += 1
                counts[mine, read.of] += 1
    except _Fault as fault:
        return fault.code
    return GOOD


IN_STEP: Final = Ways(scan_in_step, find_in_step)


class _Fault(ValueError):
    """Bytes that are no field."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Read(NamedTuple):
    """One field of some messages, all of one number and wire type.

    Attributes:
        of: which messages.
        numbers: values, or the lengths of byte strings; of a fixed32 nothing is read.
        starts, after: of byte strings; where each field ends.
    """

    of: Ints
    field: int
    wire_type: int
    numbers: Words
    starts: Ints
    after: Ints


def _in_step(data: Bytes, starts: Ints, ends: Ints) -> Iterator[_Read]:
    """The first field of all messages, then the second of those that have one, and so on."""
    at = starts.copy()
    live = np.flatnonzero(at < ends)
    while len(live):
        tag, at[live] = _varints(data, at[live])
        for field, wire_type in {(int(t) >> 3, int(t) & 7) for t in np.unique(tag)}:
            of = live[tag == np.uint64(field << 3 | wire_type)]
            begin = at[of]
            numbers, start = _values(data, begin, wire_type)
            after = start + numbers.astype(np.int64) if wire_type == _BYTES else start
            at[of] = after
            yield _Read(of, field, wire_type, numbers, start, after)
        if (at[live] > ends[live]).any():
            raise _Fault(CUT)
        live = live[at[live] < ends[live]]


def _values(data: Bytes, at: Ints, wire_type: int) -> tuple[Words, Ints]:
    """Numbers and where they end."""
    if wire_type == _VARINT:
        return _varints(data, at)
    if wire_type == _FIXED64:
        if (at + 8 > len(data)).any():
            raise _Fault(CUT)
        read: Words = data[at[:, None] + np.arange(8)].copy().view("<u8")[:, 0]
        return read, at + 8
    if wire_type == _BYTES:
        lengths, at = _varints(data, at)
        if (lengths > np.uint64(len(data))).any():
            raise _Fault(CUT)
        return lengths, at
    if wire_type == _FIXED32:
        return np.zeros(len(at), np.uint64), at + 4
    raise _Fault(wire_type)


def _varints(data: Bytes, at: Ints) -> tuple[Words, Ints]:
    """Unsigned varints and where they end."""
    value, at, live = np.zeros(len(at), np.uint64), at.copy(), np.arange(len(at))
    for shift in range(0, 70, 7):
        if (at[live] >= len(data)).any():
            raise _Fault(CUT)
        byte = data[at[live]]
        value[live] |= (byte & np.uint8(127)).astype(np.uint64) << np.uint64(shift)
        at[live] += 1
        live = live[byte > 127]
        if not len(live):
            return value, at
    raise _Fault(TOO_LONG)
