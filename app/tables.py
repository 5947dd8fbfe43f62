"""Small tables of sums as HTML: aligned, read aloud properly, and with every text from outside escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import streamlit as st

STYLE: Final = """<style>
.gl-scroll {overflow-x: auto}
.gl-table {border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.875rem}
.gl-table th {font-weight: 600; text-align: left; vertical-align: bottom; white-space: nowrap}
.gl-table th, .gl-table td {padding: 0.35rem 0.75rem 0.35rem 0; border-bottom: 1px solid rgba(128, 138, 148, 0.3)}
.gl-table td {vertical-align: top}
.gl-table tbody th {font-weight: 400; vertical-align: top}
.gl-table .number {text-align: right; white-space: nowrap}
.gl-table a, .gl-table a:visited {color: inherit !important; text-decoration: underline !important}
.gl-table tr.total > * {font-weight: 650; border-top: 2px solid currentColor; border-bottom: none}
.gl-table th:last-child, .gl-table td:last-child {padding-right: 0}
.gl-mark {display: inline-block; width: 0.7rem; height: 0.7rem; border-radius: 2px; margin-right: 0.5rem}
.gl-name {display: inline-block; max-width: min(26rem, 56vw); overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; vertical-align: bottom}
.gl-table th:has(.gl-sentence) {white-space: normal}
.gl-table :is(th, td):has(.gl-sentence) {min-width: 13rem}
.gl-buttons {display: flex; flex-wrap: wrap; gap: 0.5rem}
.gl-button, .gl-button:visited {color: inherit !important; text-decoration: none !important; font-size: 0.875rem;
  border: 1px solid rgba(128, 138, 148, 0.6); border-radius: 0.375rem; padding: 0.35rem 0.8rem}
.gl-button:hover, .gl-button:focus-visible {border-color: currentColor}
.gl-legend {display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; font-size: 0.875rem}
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] p {color: inherit; opacity: 0.92}
.stMainBlockContainer {padding-top: 3.5rem}
@media (max-width: 640px) {[data-testid="stMain"] .stHorizontalBlock {row-gap: 1.25rem}}
@media (min-width: 900px) {.stMainBlockContainer {padding-left: 3rem; padding-right: 3rem}}
</style>"""


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes:
        text: shown as it is.
        colour: of a mark before it, from app.palette.
        href: where it leads.
        wraps: a sentence, shown whole; a name is cut where it is long.
    """

    text: str
    colour: str | None = None
    href: str | None = None
    wraps: bool = False

    def html(self) -> str:
        """Return it as HTML."""
        if self.wraps:
            return f'<span class="gl-sentence">{html.escape(self.text)}</span>'
        shown = f'<bdi class="gl-name" title="{html.escape(self.text)}">{html.escape(self.text)}</bdi>'
        if self.href:
            shown = f'<a href="{html.escape(self.href)}">{shown}</a>'
        mark = f'<span class="gl-mark" style="background:{self.colour}"></span>' if self.colour else ""
        return mark + shown


def sums(
    heads: Sequence[Cell | str],
    rows: Iterable[Sequence[Cell | str]],
    *,
    total: Sequence[Cell | str] | None = None,
    caption: str = "",
) -> None:
    """Draw a table: the first column names the row; of the others a `Cell` is text, a string is a number.

    Args:
        total: the last row.
    """
    first = heads[0] if isinstance(heads[0], str) else heads[0].text
    head = "".join(_cell(cell, "th", 'scope="col"', names=n == 0) for n, cell in enumerate(heads))
    body = "".join(_row(row) for row in rows) + (_row(total, "total") if total else "")
    if caption:
        st.caption(caption)
    st.html(
        f'<div class="gl-scroll" tabindex="0" role="group" aria-label="{html.escape(caption or first)}">'
        f'<table class="gl-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def legend(entries: Iterable[tuple[str, str]]) -> None:
    """Draw what colours mean, given as (name, colour); unlike a chart's own it wraps on a narrow screen."""
    st.html(
        '<div class="gl-legend">' + "".join(f"<span>{Cell(n, colour=c).html()}</span>" for n, c in entries) + "</div>"
    )


def buttons(entries: Iterable[tuple[str, str]]) -> None:
    """Draw what can be taken along, given as (text, address)."""
    drawn = (
        f'<a class="gl-button" href="{html.escape(href)}" download>{html.escape(text)}</a>' for text, href in entries
    )
    st.html(f'<div class="gl-buttons">{"".join(drawn)}</div>')


def links(entries: Iterable[tuple[str, str]]) -> None:
    """Draw where to go on, given as (text, address)."""
    st.html('<p class="gl-table">' + " · ".join(Cell(text, href=href).html() for text, href in entries) + "</p>")


def _row(cells: Sequence[Cell | str], kind: str = "") -> str:
    named, *others = cells
    shown = _cell(named, "th", 'scope="row"', names=True) + "".join(_cell(cell, "td") for cell in others)
    return f'<tr class="{kind}">{shown}</tr>'


def _cell(cell: Cell | str, tag: str, attributes: str = "", *, names: bool = False) -> str:
    if isinstance(cell, Cell):
        return f"<{tag} {attributes}>{cell.html()}</{tag}>"
    if names:
        return f"<{tag} {attributes}>{Cell(cell).html()}</{tag}>"
    return f'<{tag} {attributes} class="number">{html.escape(cell)}</{tag}>'
