"""The scan of protobuf messages as a compiled loop. Imported only where numba is installed; see `wire`."""

from __future__ import annotations

import numpy as np

from pipelines.compiled import compiled
from pipelines.sources.prometheus.answer import Ints
from pipelines.sources.prometheus.wire import CUT, GOOD, TOO_LONG, Bytes, Words

_U64 = np.uint64
_LOW_BITS, _MORE = _U64(127), _U64(128)
_VARINT, _FIXED64, _BYTES, _FIXED32 = _U64(0), _U64(1), _U64(2), _U64(5)


@compiled
def _varint(data: Bytes, at: int) -> tuple[np.uint64, int]:
    """An unsigned varint and where it ends; TOO_LONG or CUT in the place of that where it has no end."""
    number, shift = _U64(0), _U64(0)
    while at < len(data):
        byte = _U64(data[at])
        number |= (byte & _LOW_BITS) << shift
        at += 1
        if byte < _MORE:
            return number, at
        shift += _U64(7)
        if shift >= _U64(70):
            return number, TOO_LONG
    return number, CUT


@compiled
def _field(data: Bytes, at: int) -> tuple[int, np.int64, np.uint64, np.uint64, int, int]:
    """Fault, number, wire type, value or length, start and end of the field that begins here."""
    tag, at = _varint(data, at)
    if at < 0:
        return at, np.int64(0), tag, tag, at, at
    field, kind, number, after, fault = np.int64(tag >> _U64(3)), tag & _U64(7), _U64(0), at, GOOD
    if kind == _FIXED64:
        after = at + 8
        if after > len(data):
            fault = CUT
        else:
            for nth in range(8):
                number |= _U64(data[at + nth]) << _U64(8 * nth)
    elif kind == _FIXED32:
        after = at + 4
    elif kind in (_VARINT, _BYTES):
        number, at = _varint(data, at)
        after = at
        if at < 0:
            fault = at
        elif kind == _BYTES and number > _U64(len(data)):
            fault = CUT
        elif kind == _BYTES:
            after = int(at + np.int64(number))
    else:
        fault = int(np.int64(kind))
    return fault, field, kind, number, at, after


@compiled
def scan_compiled(
    data: Bytes, starts: Ints, ends: Ints, wanted: Ints, numbers: Words, begins: Ints, lengths: Ints
) -> int:
    """Read one message after the other; see `wire.Scanner`."""
    for message in range(len(starts)):
        at, end = starts[message], ends[message]
        while at < end:
            fault, field, kind, number, begin, at = _field(data, at)
            if fault != GOOD:
                return fault
            for place in range(len(wanted)):
                if wanted[place] == field and kind == _BYTES:
                    begins[place, message], lengths[place, message] = begin, np.int64(number)
                elif wanted[place] == field and kind != _FIXED32:
                    numbers[place, message] = number
            if at > end:
                return CUT
    return GOOD


@compiled
def find_compiled(
    data: Bytes, starts: Ints, ends: Ints, wanted: Ints, into: Ints, counts: Ints, begins: Ints, finishes: Ints
) -> int:
    """Find fields in one message after the other; see `wire.Finder`."""
    following = into.copy()
    counts[:] = 0
    for message in range(len(starts)):
        at, end = starts[message], ends[message]
        while at < end:
            fault, field, kind, _, begin, at = _field(data, at)
            if fault != GOOD:
                return fault
            if at > end:
                return CUT
            for place in range(len(wanted)):
                if wanted[place] == field and kind == _BYTES:
                    if len(begins):
                        begins[following[place]], finishes[following[place]] = begin, at
                    following[place] += 1
                    counts[place, message] += 1
    return GOOD
