"""The XOR decoder as a compiled loop. Imported only where numba is installed; see `xor`."""

from __future__ import annotations

import numpy as np

from pipelines.compiled import compiled
from pipelines.sources.prometheus.answer import Ints
from pipelines.sources.prometheus.xor import Words

_U64 = np.uint64
_ONE, _SIX_BITS = np.uint64(1), np.uint64(63)


@compiled
def _peek(words: Words, at: int) -> np.uint64:
    word, shift = at >> 6, _U64(at & 63)
    read: np.uint64 = (words[word] << shift) | ((words[word + 1] >> _ONE) >> (_SIX_BITS - shift))
    return read


@compiled
def decode_compiled(  # noqa: C901, PLR0912, PLR0915 - calls and tuples inside the loop cost half of its speed
    words: Words, first: Ints, last: Ints, counts: Ints, times: Ints, values: Words
) -> bool:
    """Decode one chunk after the other; see `xor.Decoder`."""
    filled = 0
    for chunk in range(len(first)):
        at, end = first[chunk], last[chunk]
        time, spacing = np.int64(0), np.int64(0)
        value, leading, significant = _U64(0), _U64(0), _U64(0)
        for step in range(counts[chunk]):
            if at >= end:
                return False
            if step < 2:
                raw, shift = _U64(0), _U64(0)
                while True:
                    byte = _peek(words, at) >> _U64(56)
                    raw |= (byte & _U64(127)) << shift
                    at += 8
                    if byte < _U64(128):
                        break
                    shift += _U64(7)
                    if shift > _SIX_BITS:
                        return False
                if step == 0:
                    time = np.int64(raw >> _ONE) ^ -np.int64(raw & _ONE)
                    value = _peek(words, at)
                    at += 64
                else:
                    spacing = np.int64(raw)
            else:
                bits = _peek(words, at)
                if bits >> _SIX_BITS == _U64(0):
                    at += 1
                else:
                    kind = bits >> _U64(60)
                    if kind < _U64(12):
                        prefix, size = 2, 14
                    elif kind < _U64(14):
                        prefix, size = 3, 17
                    elif kind == _U64(14):
                        prefix, size = 4, 20
                    else:
                        prefix, size = 4, 64
                    at += prefix
                    if size == 64:
                        change = np.int64(_peek(words, at))
                    else:
                        change = np.int64((bits << _U64(prefix)) >> _U64(64 - size))
                        if change > 1 << (size - 1):
                            change -= 1 << size
                    at += size
                    spacing += change
            if step > 0:
                time += spacing
                bits = _peek(words, at)
                if bits >> _SIX_BITS == _U64(0):
                    at += 1
                else:
                    if bits >> _U64(62) == _U64(2):
                        at += 2
                    else:
                        leading, significant = (bits >> _U64(57)) & _U64(31), (bits >> _U64(51)) & _SIX_BITS
                        if significant == _U64(0):
                            significant = _U64(64)
                        at += 13
                    if significant == _U64(0) or leading + significant > _U64(64):
                        return False
                    differing = _peek(words, at) >> (_U64(64) - significant)
                    value ^= differing << (_U64(64) - leading - significant)
                    at += np.int64(significant)
            if at > end:
                return False
            times[filled] = time
            values[filled] = value
            filled += 1
    return True
