r"""The series part of exposition text: ``name{label="value",…}``.

Escapes in label values are ``\\``, ``\"`` and ``\n``; any other backslash stands for itself, because
exporters that forget to escape one are common.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(rb"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_PAIR: Final = re.compile(rb'\s*([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*")\s*=\s*"((?:[^"\\]|\\.)*)"\s*')
_QUOTED_NAME: Final = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*(?=[,}])')
_OPEN: Final = re.compile(rb"\s*{")
_END: Final = re.compile(rb"\s*}")
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_UNESCAPED: Final = {"\\": "\\", '"': '"', "n": "\n"}


class BadSeriesError(ValueError):
    """The text is no series; the message says why, without quoting it."""


def unescape(text: str) -> str:
    """The label value that ``text`` stands for between its quotes."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[1]], text)


def metric_name(text: bytes) -> tuple[str, int]:
    """The metric name that ``text`` starts with, and where it ends.

    Raises:
        BadSeriesError: there is none.
    """
    match = _NAME.match(text)
    if match is None:
        raise BadSeriesError("line without a metric name")
    return match[1].decode("ascii"), match.end()


def parse_series(text: bytes) -> tuple[str, dict[str, str], int]:
    """Name and labels of the series that ``text`` starts with, and the position behind its brace.

    The name may stand inside the braces, in quotes (``{"name",label="value"}``) or as the label ``__name__``, as
    ``promtool tsdb dump`` writes it. A label that is given twice is an error, an empty one is not: it means the
    same as an absent one, which is for the caller to apply.

    Raises:
        BadSeriesError: the text is no series with a label block, or is not UTF-8.
    """
    nameless = _OPEN.match(text)
    name, position = ("", nameless.end() - 1) if nameless else metric_name(text)
    if text[position : position + 1] != b"{":
        raise BadSeriesError("line without a label block")
    position += 1
    quoted = None if name else _QUOTED_NAME.match(text, position)
    if quoted is not None:
        name, position = unescape(_text(quoted[1])), _skip_comma(text, quoted.end())
    labels: dict[str, str] = {}
    while (end := _END.match(text, position)) is None:
        pair = _PAIR.match(text, position)
        if pair is None:
            raise BadSeriesError("malformed labels")
        key = _text(pair[1])
        if key.startswith('"'):
            key = unescape(key[1:-1])
        if key in labels:
            raise BadSeriesError("label given twice")
        labels[key] = unescape(_text(pair[2]))
        position = _skip_comma(text, pair.end())
    name = name or labels.pop("__name__", "")
    if not name:
        raise BadSeriesError("line without a metric name")
    return name, labels, end.end()


def _skip_comma(text: bytes, position: int) -> int:
    if text[position : position + 1] == b",":
        return position + 1
    if text[position : position + 1] != b"}":
        raise BadSeriesError("malformed labels")
    return position


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadSeriesError("line that is not UTF-8") from None
