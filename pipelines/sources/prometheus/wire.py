"""Many small protobuf messages of one kind, read at once: one array per field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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


@dataclass
class Fields:
    """Values of one field number in every message; those that lack it have 0.

    Args:
        numbers: of a varint or fixed64 field, as 64 bits.
        starts, lengths: of a length-delimited one, in the buffer.
    """

    numbers: Words
    starts: Ints
    lengths: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.zeros(len(self.starts), np.int64)


def scan(packed: Packed, wanted: Sequence[int]) -> dict[int, Fields]:
    """The wanted fields of messages, all of one kind; where a field comes twice the last counts.

    Raises:
        BadWireError: a message is cut, or no protobuf.
    """
    count = len(packed.starts)
    data = np.frombuffer(packed.buffer, np.uint8)
    found = {number: Fields(np.zeros(count, np.uint64), np.zeros(count, np.int64)) for number in wanted}
    at, end = packed.starts.copy(), packed.ends
    live = np.flatnonzero(at < end)
    while len(live):
        tag, at[live] = _varints(data, at[live])
        for number, wire_type in {(int(t) >> 3, int(t) & 7) for t in np.unique(tag)}:
            of = live[tag == np.uint64(number << 3 | wire_type)]
            fields = found.get(number)
            if wire_type == _VARINT:
                value, at[of] = _varints(data, at[of])
                if fields:
                    fields.numbers[of] = value
            elif wire_type == _FIXED64:
                if fields:
                    fields.numbers[of] = _fixed64(data, at[of])
                at[of] += 8
            elif wire_type == _BYTES:
                length, start = _varints(data, at[of])
                if (length > np.uint64(len(data))).any():
                    raise BadWireError("a field is longer than its message")
                if fields:
                    fields.starts[of], fields.lengths[of] = start, length.astype(np.int64)
                at[of] = start + length.astype(np.int64)
            elif wire_type == _FIXED32:
                at[of] += 4
            else:
                raise BadWireError(f"wire type {wire_type}")
        if (at[live] > end[live]).any():
            raise BadWireError("a field is longer than its message")
        live = live[at[live] < end[live]]
    return found


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
    raise BadWireError("a number of more than ten bytes")


def _fixed64(data: Bytes, at: Ints) -> Words:
    if (at + 8 > len(data)).any():
        raise BadWireError("a field is longer than its message")
    read: Words = data[at[:, None] + np.arange(8)].copy().view("<u8")[:, 0]
    return read
