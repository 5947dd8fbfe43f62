r"""The series part of exposition text: ``name{label="value",…}``.

Escapes in label values are ``\\``, ``\"`` and ``\n``; any other backslash stands for itself, because
exporters that forget to escape one are common.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(rb"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_PAIR: Final = re.compile(rb'\s*([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*")\s*=\s*"((?:[^"\\]|\\.)*)"\s*')
_QUOTED: Final = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*')
_ESCAPE: Final = re.compile(r'\\([\\"n])')
_UNESCAPED: Final = {"\\": "\\", '"': '"', "n": "\n"}


class BadSeriesError(ValueError):
    """The text is no series; the message says why, without quoting it."""


def unescape(text: str) -> str:
    """The label value that ``text`` stands for between its quotes."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[1]], text)


def escape(value: str) -> str:
    """``value`` as it stands between quotes in exposition text."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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

    A name in quotes inside the braces (``{"name",label="value"}``) is read too. A label that is given twice
    is an error, an empty one is not: it means the same as an absent one, which is for the caller to apply.

    Raises:
        BadSeriesError: the text is no series with a label block, or is not UTF-8.
    """
    position = 0
    name = ""
    if not text.lstrip().startswith(b"{"):
        name, position = metric_name(text)
    else:
        position = len(text) - len(text.lstrip())
    if text[position : position + 1] != b"{":
        raise BadSeriesError("line without a label block")
    position += 1
    if not name:
        quoted = _QUOTED.match(text, position)
        if quoted is None:
            raise BadSeriesError("line without a metric name")
        name, position = unescape(_text(quoted[1])), _skip_comma(text, quoted.end())
    labels: dict[str, str] = {}
    while text[position : position + 1] != b"}":
        pair = _PAIR.match(text, position)
        if pair is None:
            if text[position:].lstrip().startswith(b"}"):
                return name, labels, text.index(b"}", position) + 1
            raise BadSeriesError("malformed labels")
        key = _text(pair[1])
        if key.startswith('"'):
            key = unescape(key[1:-1])
        if key in labels:
            raise BadSeriesError("label given twice")
        labels[key] = unescape(_text(pair[2]))
        position = _skip_comma(text, pair.end())
    return name, labels, position + 1


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
