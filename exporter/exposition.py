"""Prometheus text and OpenMetrics, written fast.

What doesn't change between two passes (the name and labels of a series) is rendered once and kept; a pass only
writes numbers. Both formats share their sample lines and differ in the comment lines, so one pass serves both.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

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
    inner = ",".join(f'{name}="{escape(value)}"' for name, value in pairs.items())
    return f"{{{inner}}}" if inner else ""


@dataclass(slots=True)
class Page:
    """What one pass exposes, in the forms that scrapers ask for, each made when it is first asked for."""

    blocks: list[tuple[Family, str]]
    _forms: dict[tuple[bool, bool], bytes] = field(default_factory=dict)

    def body(self, *, openmetrics: bool, gzipped: bool) -> bytes:
        """The page without its end; OpenMetrics still needs :data:`END` after it."""
        form = self._forms.get((openmetrics, gzipped))
        if form is None:
            if gzipped:
                form = gzip.compress(self.body(openmetrics=openmetrics, gzipped=False), compresslevel=5)
            else:
                head = _openmetrics_head if openmetrics else _text_head
                form = "".join([head(family) + lines for family, lines in self.blocks]).encode()
            self._forms[openmetrics, gzipped] = form
        return form


END: Final = b"# EOF\n"


def _text_head(family: Family) -> str:
    kind = "untyped" if family.kind == "unknown" else family.kind
    return f"# HELP {family.name} {_escape_help(family.help)}\n# TYPE {family.name} {kind}\n"


def _openmetrics_head(family: Family) -> str:
    name, kind = family.name, family.kind
    if kind == "counter":
        # An OpenMetrics counter's samples end in _total and its family doesn't; DCGM's counters have no such end.
        if name.endswith("_total"):
            name = name.removesuffix("_total")
        else:
            kind = "unknown"
    return f"# TYPE {name} {kind}\n# HELP {name} {_escape_help(family.help, quotes=True)}\n"


def _escape_help(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


class Renderer:
    """Renders families and keeps the prefixes of their series from pass to pass."""

    def __init__(self) -> None:
        self._prefixes: dict[str, dict[str, str]] = {}

    def render(self, families: Iterable[Family]) -> Page:
        """A page with every family that has samples."""
        blocks = []
        kept: dict[str, dict[str, str]] = {}
        for family in families:
            if not family.samples:
                continue
            prefixes = self._prefixes.get(family.name, {})
            try:
                text = "".join([f"{prefixes[where]}{value!r}\n" for where, value in family.samples])
            except KeyError:
                prefixes = {}
            if len(prefixes) != len(family.samples):
                # Series came or went: keep the prefixes of those that are there now, and nothing of the others.
                prefixes = {where: f"{family.name}{where} " for where, _ in family.samples}
                text = "".join([f"{prefixes[where]}{value!r}\n" for where, value in family.samples])
            kept[family.name] = prefixes
            blocks.append((family, text))
        self._prefixes = kept
        return Page(blocks)
