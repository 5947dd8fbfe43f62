"""Prometheus's XOR chunks → arrays of times and values.

The format is that of tsdb/chunkenc/xor.go, after Facebook's Gorilla: a count, the first sample in full, then changes of
the spacing in time and the bits in which a value differs from the one before.

There are two decoders with the same result: `xor_jit` compiles the obvious loop with numba (the extra `fast`); without
it, `_decode_in_step` takes a step of all chunks at once in NumPy, at about a tenth of the speed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from pipelines.sources.prometheus.answer import Floats, Ints

Words = npt.NDArray[np.uint64]
Decoder = Callable[[Words, Ints, Ints, Ints, Ints, Words], bool]
"""Called with words, first bits, last bits, counts, and the times and values to fill, chunk after chunk; returns
whether all chunks were good."""

ROOM_AFTER: Final = 64
"""Bytes after the last chunk that decoders may look at before they notice its end."""
_HEADER_BITS: Final = 16


class BadChunkError(ValueError):
    """Bits that are no XOR chunk."""


def decode(buffer: bytes, starts: Ints, lengths: Ints, *, decoder: Decoder | None = None) -> tuple[Ints, Ints, Floats]:
    """Samples per chunk, their times in ms and their values.

    Args:
        buffer: holds the chunks, with ROOM_AFTER more bytes behind the last.
        starts, lengths: of each chunk, in bytes.
        decoder: None: the fastest that is there.

    Raises:
        BadChunkError: a chunk is none, or ends before its last sample.
    """
    if len(lengths) and int(lengths.min()) * 8 < _HEADER_BITS:
        raise BadChunkError("a chunk without a header")
    words = np.frombuffer(buffer, ">u8", len(buffer) // 8).astype(np.uint64)
    first, last = starts * 8, (starts + lengths) * 8
    counts = (peek(words, first) >> np.uint64(48)).astype(np.int64)
    # A sample takes two bits at least: counts that can't be are not worth the memory.
    if (2 * counts > last - first).any():
        raise BadChunkError("more samples than a chunk has room for")
    total = int(counts.sum())
    times, values = np.empty(total, np.int64), np.empty(total, np.uint64)
    if not (decoder or fastest_decoder())(words, first + _HEADER_BITS, last, counts, times, values):
        raise BadChunkError("a chunk is cut or damaged")
    return counts, times, values.view(np.float64)


@cache
def fastest_decoder() -> Decoder:
    """The compiled decoder where numba is installed, else the one of NumPy."""
    try:
        from pipelines.sources.prometheus import xor_jit  # noqa: PLC0415 - numba takes half a second to load
    except ImportError:
        return decode_in_step
    return xor_jit.decode_compiled


def peek(words: Words, at: Ints) -> Words:
    """The 64 bits from each position on."""
    word, shift = at >> 6, (at & 63).astype(np.uint64)
    read: Words = (words[word] << shift) | ((words[word + 1] >> np.uint64(1)) >> (np.uint64(63) - shift))
    return read


# By the first four bits of a change of spacing: bits before it, and bits of it.
_PREFIX: Final = np.array([1] * 8 + [2] * 4 + [3] * 2 + [4] * 2, np.int64)
_SIZE: Final = np.array([0] * 8 + [14] * 4 + [17] * 2 + [20, 64], np.int64)


def decode_in_step(words: Words, first: Ints, last: Ints, counts: Ints, times: Ints, values: Words) -> bool:
    """Decode the n-th sample of all chunks at once; see `Decoder`."""
    order = np.argsort(-counts, kind="stable")  # those with samples left are always the first
    into = (np.cumsum(counts) - counts)[order]
    sizes, ends = counts[order], last[order]
    lanes = _Lanes(words, first[order])
    for step in range(int(sizes[0]) if len(sizes) else 0):
        lanes.keep(int(np.searchsorted(-sizes, -step, side="left")))
        try:
            lanes.step(step)
        except BadChunkError:
            return False
        if (lanes.at > ends[: len(lanes.at)]).any():
            return False
        times[into[: len(lanes.at)] + step] = lanes.time
        values[into[: len(lanes.at)] + step] = lanes.value
    return True


class _Lanes:
    """Where each chunk's decoding stands."""

    def __init__(self, words: Words, at: Ints) -> None:
        self._words, self.at = words, at
        self.time, self._spacing = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
        self.value = np.zeros(len(at), np.uint64)
        self._leading, self._significant = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)

    def keep(self, count: int) -> None:
        """Go on with the first ones only."""
        if count < len(self.at):
            for name in ("at", "time", "_spacing", "value", "_leading", "_significant"):
                setattr(self, name, getattr(self, name)[:count].copy())

    def step(self, number: int) -> None:
        """Decode the next sample."""
        if number == 0:
            raw = self._varint()
            self.time = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
            self.value = peek(self._words, self.at)
            self.at += 64
            return
        if number == 1:
            self._spacing = self._varint().astype(np.int64)
        else:
            self._change_spacing()
        self.time += self._spacing
        self._change_value()

    def _varint(self) -> Words:
        result = np.zeros(len(self.at), np.uint64)
        live = np.arange(len(self.at))
        for shift in range(0, 70, 7):
            byte = peek(self._words, self.at[live]) >> np.uint64(56)
            result[live] |= (byte & np.uint64(127)) << np.uint64(shift)
            self.at[live] += 8
            live = live[byte > np.uint64(127)]
            if not len(live):
                return result
        raise BadChunkError("a number of more than ten bytes")

    def _change_spacing(self) -> None:
        bits = peek(self._words, self.at)
        self.at += 1
        changed = np.flatnonzero(bits >> np.uint64(63))
        if not len(changed):
            return
        bits = bits[changed]
        kind = bits >> np.uint64(60)
        prefix, size = _PREFIX[kind], _SIZE[kind]
        change = ((bits << prefix.astype(np.uint64)) >> (64 - size).astype(np.uint64)).view(np.int64)
        long = size == 64
        short_size = np.where(long, 1, size)
        change = np.where(~long & (change > 1 << (short_size - 1)), change - (1 << short_size), change)
        change[long] = peek(self._words, self.at[changed[long]] + 3).view(np.int64)
        self._spacing[changed] += change
        self.at[changed] += prefix + size - 1

    def _change_value(self) -> None:
        bits = peek(self._words, self.at)
        self.at += 1
        changed = np.flatnonzero(bits >> np.uint64(63))
        if not len(changed):
            return
        bits = bits[changed]
        self.at[changed] += 1
        new = np.flatnonzero(bits >> np.uint64(62) == np.uint64(3))
        if len(new):
            which, bits = changed[new], bits[new]
            significant = ((bits >> np.uint64(51)) & np.uint64(63)).astype(np.int64)
            self._leading[which] = ((bits >> np.uint64(57)) & np.uint64(31)).astype(np.int64)
            self._significant[which] = np.where(significant == 0, 64, significant)
            if (self._leading[which] + self._significant[which] > 64).any():
                raise BadChunkError("a value of more than 64 bits")
            self.at[which] += 11
        significant = self._significant[changed]
        if (significant == 0).any():
            raise BadChunkError("the bits of a value without their place")
        trailing = (64 - self._leading[changed] - significant).astype(np.uint64)
        self.value[changed] ^= (peek(self._words, self.at[changed]) >> (64 - significant).astype(np.uint64)) << trailing
        self.at[changed] += significant
