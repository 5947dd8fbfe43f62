from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.exposition import escape
from pipelines.sources.labels import BadSeriesError, parse_series, unescape

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8"))


@given(VALUES)
def test_escaping_is_undone(value: str) -> None:
    assert unescape(escape(value)) == value
    assert "\n" not in escape(value)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from(["", ",", " , "]))
def test_a_series_reads_back_as_it_was_written(name: str, labels: dict[str, str], end: str) -> None:
    pairs = ",".join(f'{label}="{escape(value)}"' for label, value in labels.items())
    text = f"{name}{{{pairs}{end if labels else ''}}}".encode()
    assert parse_series(text + b" 1 2") == (name, labels, len(text))


@pytest.mark.parametrize(
    ("text", "name", "labels"),
    [
        (r'm{a="team \"A\"\\x\n"} 1', "m", {"a": 'team "A"\\x\n'}),
        (r'm{a="C:\dir"} 1', "m", {"a": r"C:\dir"}),
        ('m{a="é🚀"} 1', "m", {"a": "é🚀"}),
        ('m{a="}{,="} 1', "m", {"a": "}{,="}),
        ("m{} 1", "m", {}),
        ('m{a=""} 1', "m", {"a": ""}),
        ('{"m.n", "a.b"="c"} 1', "m.n", {"a.b": "c"}),
        ('{"m"} 1', "m", {}),
        ('{__name__="m", a="b"} 1', "m", {"a": "b"}),
    ],
)
def test_labels_are_read_as_written(text: str, name: str, labels: dict[str, str]) -> None:
    raw = text.encode()
    assert parse_series(raw) == (name, labels, raw.rindex(b"}") + 1)


@pytest.mark.parametrize(
    "text",
    ["", "m", 'm x{a="b"}', "m{", "m{a}", 'm{a="x}', 'm{a="x"b="y"}', "{}", '{a="b"}', 'm{a="x",a="y"}', "m{a=x}"],
)
def test_what_is_no_series_is_said_to_be_none(text: str) -> None:
    with pytest.raises(BadSeriesError):
        parse_series(text.encode())
