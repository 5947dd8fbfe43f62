"""Chunks as Prometheus stores them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sources.prometheus.wire import Packed
from pipelines.sources.prometheus.xor import BadChunkError, Decoder, decode, decode_in_step, fastest_decoder
from pipelines.sources.prometheus.xor_jit import decode_compiled
from tests.pipelines.sources import xor_reference
from tests.pipelines.sources.xor_reference import Sample

DECODERS = pytest.mark.parametrize("decoder", [decode_in_step, decode_compiled])

SPACINGS = st.one_of(
    st.just(15_000),
    st.integers(1, 1 << 13),
    st.integers(1, 1 << 16),
    st.integers(1, 1 << 19),
    st.integers(1, 1 << 40),
)
VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, -0.0, 1e-300, float("inf"), xor_reference.value_of(0x7FF0000000000002)]),
    st.integers(0, 100).map(float),
    st.integers(0, (1 << 64) - 1).map(xor_reference.value_of),
)


@st.composite
def chunks(draw: st.DrawFn) -> list[Sample]:
    time = draw(st.integers(-(1 << 41), 1 << 41))
    samples = []
    for spacing, value in draw(st.lists(st.tuples(SPACINGS, VALUES), max_size=12)):
        samples.append((time, value))
        time += spacing
    return samples


def decoded(raw: Sequence[bytes], decoder: Decoder) -> tuple[list[int], list[int], list[int]]:
    packed = Packed.of(raw)
    counts, times, values = decode(packed.buffer, packed.starts, packed.ends - packed.starts, decoder=decoder)
    return counts.tolist(), times.tolist(), values.view(np.uint64).tolist()


def expected(written: Sequence[Sequence[Sample]]) -> tuple[list[int], list[int], list[int]]:
    flat = [sample for samples in written for sample in samples]
    return (
        [len(samples) for samples in written],
        [time for time, _ in flat],
        [xor_reference.bits_of(value) for _, value in flat],
    )


@DECODERS
@given(written=st.lists(chunks(), max_size=5))
def test_chunks_decode_to_the_bits_that_the_plain_decoder_reads(written: list[list[Sample]], decoder: Decoder) -> None:
    raw = [xor_reference.encode(samples) for samples in written]
    plain = [xor_reference.decode(chunk) for chunk in raw]
    assert expected(plain) == expected(written)  # the reference agrees with itself
    assert decoded(raw, decoder) == expected(plain)


@DECODERS
def test_every_size_of_a_change_of_spacing_keeps_its_edges(decoder: Decoder) -> None:
    edges = [sign * ((1 << bits) + off) for bits in (13, 16, 19, 31) for off in (-1, 0, 1) for sign in (1, -1)]
    written = [[(0, 1.0), (1 << 40, 1.0), (2 * (1 << 40) + edge, 2.0)] for edge in edges]
    assert decoded([xor_reference.encode(samples) for samples in written], decoder) == expected(written)


@DECODERS
@given(samples=chunks().filter(lambda samples: len(samples) > 2), data=st.data())
def test_a_chunk_that_is_cut_is_an_error(samples: list[Sample], data: st.DataObject, decoder: Decoder) -> None:
    whole = xor_reference.encode(samples)
    cut = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(BadChunkError):
        decoded([xor_reference.encode([(0, 1.0)]), cut], decoder)


@given(raw=st.lists(st.binary(min_size=2, max_size=60), min_size=1, max_size=4))
def test_garbage_is_an_error_or_the_same_garbage_from_both(raw: list[bytes]) -> None:
    results = []
    for decoder in (decode_in_step, decode_compiled):
        try:
            results.append(decoded(raw, decoder))
        except BadChunkError:
            results.append(([], [], []))
    assert results[0] == results[1]


def test_a_count_that_a_chunk_has_no_room_for_takes_no_memory() -> None:
    with pytest.raises(BadChunkError, match="room"):
        decoded([struct.pack(">H", 65535) + bytes(20)], decode_in_step)


def test_the_compiled_decoder_is_used_where_numba_is() -> None:
    assert fastest_decoder() is decode_compiled
