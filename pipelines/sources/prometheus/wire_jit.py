"""The scan of protobuf messages as a compiled loop. Imported only where numba is installed; see `wire`."""

from __future__ import annotations

import numpy as np

from pipelines.compiled import compiled
from pipelines.sources.prometheus.answer import Ints
from pipelines.sources.prometheus.wire import CUT, GOOD, TOO_LONG, Bytes, Words

_U64 = np.uint64
_LOW_BITS, _MORE = _U64(127), _U64(128)


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
def scan_compiled(  # noqa: C901, PLR0911, PLR0912 - a branch for each wire type
    data: Bytes, starts: Ints, ends: Ints, wanted: Ints, numbers: Words, begins: Ints, lengths: Ints
) -> int:
    """Read one message after the other; see `wire.Scanner`."""
    for message in range(len(starts)):
        at, end = starts[message], ends[message]
        while at < end:
            tag, at = _varint(data, at)
            if at < 0:
                return at
            field, kind = np.int64(tag >> _U64(3)), tag & _U64(7)
            place = -1
            for nth in range(len(wanted)):
                if wanted[nth] == field:
                    place = nth
            if kind == _U64(1):
                if at + 8 > len(data):
                    return CUT
                if place >= 0:
                    number = _U64(0)
                    for nth in range(8):
                        number |= _U64(data[at + nth]) << _U64(8 * nth)
                    numbers[place, message] = number
                at += 8
            elif kind == _U64(5):
                at += 4
            elif kind in (_U64(0), _U64(2)):
                number, at = _varint(data, at)
                if at < 0:
                    return at
                if kind == _U64(0):
                    if place >= 0:
                        numbers[place, message] = number
                else:
                    if number > _U64(len(data)):
                        return CUT
                    if place >= 0:
                        begins[place, message], lengths[place, message] = at, np.int64(number)
                    at += np.int64(number)
            else:
                return int(kind)
            if at > end:
                return CUT
    return GOOD
