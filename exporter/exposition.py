"""Prometheus text and OpenMetrics, written fast.

What doesn't change between two passes is written once and kept: the name and labels of a series, and the lines of a
family whose values are all what they were (limits, modes, error counts: most of a page). Both formats share their
sample lines and differ in the comment lines, so one pass serves both.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(slots=True)
class Family:
    """One metric family: its samples are (rendered labels, value) pairs."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, float]] = field(default_factory=list)


def escape(value: str) -> str:
    """A label value as the text formats write it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def labels(pairs: Mapping[str, str]) -> str:
    """Rendered labels, ``{name="value",…}``, or "" for none."""
    return _label_text(tuple(pairs.items()))


@lru_cache(maxsize=1024)
def _label_text(pairs: tuple[tuple[str, str], ...]) -> str:
    inner = ",".join([f'{name}="{escape(value)}"' for name, value in pairs])
    return f"{{{inner}}}" if inner else ""


@dataclass(slots=True)
class Page:
    """What one pass exposes, in the forms that scrapers ask for, each made when it is first asked for."""

    blocks: list[tuple[Family, bytes]]
    _forms: dict[tuple[bool, bool], bytes] = field(default_factory=dict)

    def body(self, *, openmetrics: bool, gzipped: bool) -> bytes:
        """The page without its end; OpenMetrics still needs :data:`END` after it."""
        form = self._forms.get((openmetrics, gzipped))
        if form is None:
            if gzipped:
                form = gzip.compress(self.body(openmetrics=openmetrics, gzipped=False), compresslevel=5)
            else:
                head = _openmetrics_head if openmetrics else _text_head
                form = b"".join([part for family, lines in self.blocks for part in (head(family), lines)])
            self._forms[openmetrics, gzipped] = form
        return form


END: Final = b"# EOF\n"


def _text_head(family: Family) -> bytes:
    return _text_comments(family.name, family.kind, family.help)


def _openmetrics_head(family: Family) -> bytes:
    return _openmetrics_comments(family.name, family.kind, family.help)


@lru_cache(maxsize=1024)
def _text_comments(name: str, kind: str, text: str) -> bytes:
    kind = "untyped" if kind == "unknown" else kind
    return f"# HELP {name} {_escape_help(text)}\n# TYPE {name} {kind}\n".encode()


@lru_cache(maxsize=1024)
def _openmetrics_comments(name: str, kind: str, text: str) -> bytes:
    if kind == "counter":
        # An OpenMetrics counter's samples end in _total and its family doesn't; DCGM's counters have no such end.
        if name.endswith("_total"):
            name = name.removesuffix("_total")
        else:
            kind = "unknown"
    return f"# TYPE {name} {kind}\n# HELP {name} {_escape_help(text, quotes=True)}\n".encode()


def _escape_help(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


class _Lines(NamedTuple):
    """The sample lines of one family as they were last written.

    Args:
        where: the labels of its series.
        template: their lines with a hole for each value.
        values: what fills the holes.
        written: the template with its holes filled.
    """

    where: tuple[str, ...]
    template: bytes
    values: tuple[float, ...]
    written: bytes


class Renderer:
    """Renders families; keeps the lines of each from pass to pass and writes again only what changed."""

    def __init__(self) -> None:
        self._lines: dict[str, _Lines] = {}

    def render(self, families: Iterable[Family]) -> Page:
        """A page with every family that has samples."""
        blocks = []
        kept: dict[str, _Lines] = {}
        for family in families:
            if not family.samples:
                continue
            where, values = zip(*family.samples, strict=True)
            lines = self._lines.get(family.name)
            if lines is None or lines.where != where:
                template = _template(family.name, where)
                lines = _Lines(where, template, values, template % values)
            elif lines.values != values:
                # Python compares numbers exactly, an int with a float too: what is equal reads back the same.
                lines = _Lines(where, lines.template, values, lines.template % values)
            kept[family.name] = lines
            blocks.append((family, lines.written))
        # What isn't on this page is forgotten: series that are gone leave nothing behind.
        self._lines = kept
        return Page(blocks)


def _template(name: str, where: Iterable[str]) -> bytes:
    """Sample lines in which ``%r`` stands for the value: the shortest number that reads back the same."""
    return _encoded("".join([f"{name}{text} %r\n" for text in (label.replace("%", "%%") for label in where)]))


def _encoded(text: str) -> bytes:
    """Text as UTF-8; halves of a surrogate pair are joined, lone ones replaced: a name must not cost the page."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
