"""Protobuf messages read at once: the compiled scanner and that of NumPy, against protobuf's own rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sources.prometheus.wire import IN_STEP, BadWireError, Packed, Ways, repeated, scan
from pipelines.sources.prometheus.wire_jit import find_compiled, scan_compiled

COMPILED = Ways(scan_compiled, find_compiled)
BOTH_WAYS = pytest.mark.parametrize("ways", [IN_STEP, COMPILED], ids=["in_step", "compiled"])
WANTED = (3, 4)

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
FIELDS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, 4, 200]),
        st.one_of(
            NUMBERS.map(lambda n: ("varint", n)),
            NUMBERS.map(lambda n: ("fixed64", n)),
            st.integers(0, (1 << 32) - 1).map(lambda n: ("fixed32", n)),
            st.binary(max_size=200).map(lambda b: ("bytes", b)),
        ),
    ),
    max_size=6,
)


def varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def written(fields: list[tuple[int, tuple[str, int | bytes]]]) -> bytes:
    message = b""
    for number, (kind, value) in fields:
        wire_type = {"varint": 0, "fixed64": 1, "bytes": 2, "fixed32": 5}[kind]
        message += varint(number << 3 | wire_type)
        if isinstance(value, bytes):
            message += varint(len(value)) + value
        else:
            message += varint(value) if kind == "varint" else value.to_bytes(8 if kind == "fixed64" else 4, "little")
    return message


def outcome(raw: list[bytes], ways: Ways) -> object:
    packed = Packed.of(raw)
    try:
        found = scan(packed, WANTED, ways=ways)
    except BadWireError:
        return "bad"
    return [
        (
            found[field].numbers[at].item(),
            packed.buffer[found[field].starts[at] : found[field].starts[at] + found[field].lengths[at]],
        )
        for at in range(len(raw))
        for field in WANTED
    ]


@BOTH_WAYS
@given(messages=st.lists(FIELDS, max_size=4))
def test_the_last_value_of_a_wanted_field_is_found(
    ways: Ways, messages: list[list[tuple[int, tuple[str, int | bytes]]]]
) -> None:
    expected = []
    for fields in messages:
        for field in WANTED:
            values = [value for number, (kind, value) in fields if number == field and kind != "fixed32"]
            numbers = [value for value in values if isinstance(value, int)]
            texts = [value for value in values if isinstance(value, bytes)]
            expected.append((numbers[-1] if numbers else 0, texts[-1] if texts else b""))
    assert outcome([written(fields) for fields in messages], ways) == expected


def occurrences(raw: list[bytes], ways: Ways) -> object:
    try:
        found = repeated(Packed.of(raw), WANTED, ways=ways)
    except BadWireError:
        return "bad"
    return [
        ([values.buffer[a:b] for a, b in zip(values.starts, values.ends, strict=True)], counts.tolist())
        for values, counts in found
    ]


@BOTH_WAYS
@given(messages=st.lists(FIELDS, max_size=4))
def test_all_byte_strings_of_a_field_are_found_message_by_message(
    ways: Ways, messages: list[list[tuple[int, tuple[str, int | bytes]]]]
) -> None:
    expected = []
    for field in WANTED:
        of = [[value for n, (_, value) in fields if n == field and isinstance(value, bytes)] for fields in messages]
        expected.append(([value for values in of for value in values], [len(values) for values in of]))
    assert occurrences([written(fields) for fields in messages], ways) == expected


@given(raw=st.lists(st.binary(max_size=40), max_size=3))
def test_of_any_bytes_both_ways_say_the_same(raw: list[bytes]) -> None:
    assert outcome(raw, IN_STEP) == outcome(raw, COMPILED)
    assert occurrences(raw, IN_STEP) == occurrences(raw, COMPILED)


@given(messages=st.lists(FIELDS, min_size=1, max_size=2), data=st.data())
def test_of_damaged_messages_both_ways_say_the_same(
    messages: list[list[tuple[int, tuple[str, int | bytes]]]], data: st.DataObject
) -> None:
    raw = [written(fields) for fields in messages]
    raw[-1] = raw[-1][: data.draw(st.integers(0, len(raw[-1])))]
    assert outcome(raw, IN_STEP) == outcome(raw, COMPILED)
    assert occurrences(raw, IN_STEP) == occurrences(raw, COMPILED)


@BOTH_WAYS
@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"\x1b", "wire type 3"),
        (b"\xff" * 11, "more than ten bytes"),
        (b"\x22\x05ab", "longer than its message"),
        (b"\x19abc", "longer than its message"),
        (b"\x1d\x01", "longer than its message"),
    ],
)
def test_what_is_no_message_is_said(ways: Ways, message: bytes, said: str) -> None:
    with pytest.raises(BadWireError, match=said):
        scan(Packed.of([message]), WANTED, ways=ways)
    with pytest.raises(BadWireError, match=said):
        repeated(Packed.of([message]), WANTED, ways=ways)
