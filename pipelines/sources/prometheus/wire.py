"""Many small protobuf messages of one kind, read at once: one array per field.

There are two scanners with the same result: `wire_jit` compiles the obvious loop with numba (the extra `fast`); without
it the n-th field of all messages is read at once by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.sources.prometheus.answer import Ints

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_PADDING: Final = bytes(64)  # so that a look ahead at the very end stays inside
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadWireError(ValueError):
    """Bytes that are not what they should be."""


@dataclass(frozen=True)
class Packed:
    """Byte strings in one buffer.

    Args:
        buffer: all of them, and some zeros after them.
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
        return cls(b"".join([*pieces, _PADDING]), ends - lengths, ends)


Scanner = Callable[[Bytes, Ints, Ints, Ints, Words, Ints, Ints], int]
"""Called with bytes, starts and ends of messages, wanted fields, and the numbers, starts and lengths to fill by field
and message; returns GOOD, TOO_LONG or CUT, else the wire type that is none."""

GOOD, TOO_LONG, CUT = 0, -1, -2


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


def scan(packed: Packed, wanted: Sequence[int], *, scanner: Scanner | None = None) -> dict[int, Fields]:
    """The wanted fields of messages, all of one kind; where a field comes twice the last counts.

    Args:
        scanner: None: the fastest that is there.

    Raises:
        BadWireError: a message is cut, or no protobuf.
    """
    shape = (len(wanted), len(packed.starts))
    numbers, starts, lengths = np.zeros(shape, np.uint64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    data = np.frombuffer(packed.buffer, np.uint8)
    fields = np.array(wanted, np.int64)
    found = (scanner or fastest_scanner())(data, packed.starts, packed.ends, fields, numbers, starts, lengths)
    if found == TOO_LONG:
        raise BadWireError("a number of more than ten bytes")
    if found == CUT:
        raise BadWireError("a field is longer than its message")
    if found != GOOD:
        raise BadWireError(f"wire type {found}")
    return {field: Fields(numbers[at], starts[at], lengths[at]) for at, field in enumerate(wanted)}


@cache
def fastest_scanner() -> Scanner:
    """The compiled scanner where numba is installed, else the one of NumPy."""
    try:
        from pipelines.sources.prometheus import wire_jit  # noqa: PLC0415 - numba takes half a second to load
    except ImportError:
        return scan_in_step
    return wire_jit.scan_compiled


def scan_in_step(  # noqa: C901, PLR0912 - a branch for each wire type
    data: Bytes, starts: Ints, ends: Ints, wanted: Ints, numbers: Words, begins: Ints, lengths: Ints
) -> int:
    """Read the n-th field of all messages at once; see `Scanner`."""
    place = {int(field): at for at, field in enumerate(wanted)}
    at = starts.copy()
    live = np.flatnonzero(at < ends)
    try:
        while len(live):
            tag, at[live] = _varints(data, at[live])
            for field, wire_type in {(int(t) >> 3, int(t) & 7) for t in np.unique(tag)}:
                of = live[tag == np.uint64(field << 3 | wire_type)]
                mine = place.get(field)
                if wire_type == _VARINT:
                    value, at[of] = _varints(data, at[of])
                    if mine is not None:
                        numbers[mine, of] = value
                elif wire_type == _FIXED64:
                    if (at[of] + 8 > len(data)).any():
                        return CUT
                    if mine is not None:
                        numbers[mine, of] = _fixed64(data, at[of])
                    at[of] += 8
                elif wire_type == _BYTES:
                    length, start = _varints(data, at[of])
                    if (length > np.uint64(len(data))).any():
                        return CUT
                    if mine is not None:
                        begins[mine, of], lengths[mine, of] = start, length.astype(np.int64)
                    at[of] = start + length.astype(np.int64)
                elif wire_type == _FIXED32:
                    at[of] += 4
                else:
                    return wire_type
            if (at[live] > ends[live]).any():
                return CUT
            live = live[at[live] < ends[live]]
    except _TooLongError:
        return TOO_LONG
    return GOOD


class _TooLongError(ValueError):
    """A varint of more than ten bytes."""


def _varints(data: Bytes, at: Ints) -> tuple[Words, Ints]:
    """Unsigned varints and where they end."""
    value, at, live = np.zeros(len(at), np.uint64), at.copy(), np.arange(len(at))
    for shift in range(0, 70, 7):
        byte = data[at[live]]
        value[live] |= (byte & np.uint8(127)).astype(np.uint64) << np.uint64(shift)
        at[live] += 1
        live = live[byte > 127]
        if not len(live):
            return value, at
    raise _TooLongError


def _fixed64(data: Bytes, at: Ints) -> Words:
    read: Words = data[at[:, None] + np.arange(8)].copy().view("<u8")[:, 0]
    return read
