"""The audit trail, as a section: what was done to the book, and what was imported."""

from __future__ import annotations

from typing import Final

import streamlit as st

from app import audit, tables, words
from app.scope import Scope

ACTS: Final = 50
IMPORTS: Final = 100
HASH: Final = 12
"""Signs of a hash that are shown; a chain is checked by all of them."""


def show(scope: Scope) -> None:
    """Draw the sections."""
    st.header("Audit trail")
    _book(scope)
    st.header("Imports")
    _imports(scope)


def _book(scope: Scope) -> None:
    acts, problems = audit.trail(scope)
    if problems:
        st.error(
            f"The book was changed outside this program: {words.literal(problems[0])}. `gpuledger verify` checks all "
            "of it; restore it from a backup.",
            icon=":material/gpp_bad:",
        )
    if not acts:
        st.info("Nothing was closed or booked yet. `gpuledger close` closes a month.")
        return
    if not problems:
        st.success(
            f"{words.counted(len(acts), 'line')}, each with the hash of the one before: none was changed, taken out or "
            "put in. `gpuledger verify` works the closed months out again.",
            icon=":material/verified:",
        )
    tables.sums(
        [tables.Cell("When"), *(tables.Cell(head) for head in ("What", "Month", "By", "About", "Hash"))],
        [
            (
                words.UNKNOWN if act.at is None else words.instant(act.at, scope.zone),
                *(
                    tables.Cell(text)
                    for text in (audit.KINDS[act.kind], act.period, act.by or words.UNKNOWN, act.what, act.hash[:HASH])
                ),
            )
            for act in acts[:ACTS]
        ],
    )
    if len(acts) > ACTS:
        st.caption(f"The last {ACTS} of {len(acts):,}.")


def _imports(scope: Scope) -> None:
    rows = scope.ask("SELECT * FROM import_log ORDER BY sequence DESC").to_dicts() if scope.has("import_log") else []
    if not rows:
        st.info("What is published doesn't name its imports; `gpuledger run --once` publishes them.")
        return
    tables.sums(
        [
            tables.Cell("Source"),
            *(tables.Cell(head) for head in ("Kind", "Imported", "Content")),
            "Samples",
            "Findings",
        ],
        [
            (
                row["source"],
                tables.Cell(row["kind"] if row["configured"] else f"{row['kind']}, by hand"),
                tables.Cell(words.instant(row["imported_at"], scope.zone)),
                tables.Cell(row["id"][:HASH]),
                f"{row['samples']:,}",
                f"{row['findings']:,}",
            )
            for row in rows[:IMPORTS]
        ],
    )
    if len(rows) > IMPORTS:
        st.caption(f"The last {IMPORTS} of {len(rows):,}.")
