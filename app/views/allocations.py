"""Allocations: who holds which device when, what is reserved, and what is free."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

import polars as pl
import streamlit as st

from app import address, holdings, palette, tables, timelines, words
from app.holdings import Window
from app.scope import Scope
from app.views import free_now
from app.views.common import draw, scope_of_page
from pipelines.instants import from_ms

ALL_NODES: Final = ""  # no node has that name
LINES: Final = {"node": "Node and device", "tenant": "Tenant", "workload": "Workload"}
DRAWN: Final = 10
"""Days that are drawn as they are; of longer ranges, some are chosen."""
SPANS: Final = {"1": "A day", "3": "Three days", "7": "A week"}
NO_TENANT: Final = "No tenant"


def show() -> None:
    """Draw the page."""
    scope = scope_of_page()
    window, lines, node = _controls(scope)
    found = holdings.bars(scope, window, node)
    _answer(scope, window, found)
    if found:
        _gantt(scope, window, found, lines)
    else:
        st.info("Nobody held a GPU in these days. Choose others above.")
    if scope.whole_fleet and scope.tenant is None:
        free_now.show(scope)
    st.header("Reservations")
    _reservations(scope)


def _controls(scope: Scope) -> tuple[Window, str, str | None]:
    first, last = _days(scope)
    days = [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]
    options = [ALL_NODES, *holdings.nodes(scope)]
    day, span = days[0], str(len(days))
    with st.container(horizontal=True):
        if len(days) > DRAWN:
            day = address.select("From", "day", days, days[-3], _day_named)
            span = address.select("For", "days", list(SPANS), "3", SPANS.__getitem__)
        lines = address.select("A line for each", "lines", list(LINES), "node", LINES.__getitem__)
        node = address.select("Node", "node", options, ALL_NODES, lambda n: "All nodes" if n == ALL_NODES else n)
    return Window(date.fromisoformat(day), int(span), scope.zone), lines, None if node == ALL_NODES else node


def _day_named(day: str) -> str:
    return f"{date.fromisoformat(day):%a %-d %b}"


def _days(scope: Scope) -> tuple[date, date]:
    """Return the local days of the range that the ledger holds data of."""
    span = scope.span
    first = (span.seen_from or span.start).astimezone(scope.zone).date()
    end = max(span.seen_to or span.end, span.start + timedelta(days=1))
    return first, max(first, (end - timedelta(milliseconds=1)).astimezone(scope.zone).date())


def _answer(scope: Scope, window: Window, found: list[dict[str, Any]]) -> None:
    start, end = (from_ms(t).astimezone(scope.zone) for t in window.bounds)
    last = end - timedelta(days=1)
    when = f"{start:%-d %b}" if window.days == 1 else f"{start:%-d %b} to {last:%-d %b %Y}"
    tenants = {row["tenant"] for row in found} - {None}
    leases = "1 lease" if len(found) == 1 else f"{len(found):,} leases"
    st.title(f"{when}: {leases} of {len(tenants)} {'tenant' if len(tenants) == 1 else 'tenants'}")


def _gantt(scope: Scope, window: Window, found: list[dict[str, Any]], lines: str) -> None:
    named = [{**row, "line": _line(scope, row, lines), "holder": _holder(scope, row)} for row in found]
    held: dict[str, int] = {}
    for row in named:
        held[row["line"]] = held.get(row["line"], 0) + row["end"] - row["start"]
    by_length = sorted(held, key=lambda line: (-held[line], line))[: holdings.ROWS]
    shown = set(by_length)
    order = sorted(shown) if lines == "node" else by_length
    if len(held) > len(shown):
        st.caption(
            f"The {len(shown)} lines that were held longest, of {len(held):,}. Choose a node or a tenant for others."
        )
    holders = sorted({row["holder"] for row in named})
    colours = palette.series_colours(holders, other=NO_TENANT)
    tables.legend(colours.items())
    frame = pl.DataFrame(
        [
            (
                row["line"],
                row["holder"],
                row["workload"],
                row["user"] or words.UNKNOWN,
                _local(scope, row["start"]),
                _local(scope, row["end"]),
                words.instant(from_ms(row["whole_start"]), scope.zone),
                words.instant(from_ms(row["whole_end"]), scope.zone),
            )
            for row in named
            if row["line"] in shown
        ],
        schema=["line", "holder", "workload", "user", "start", "end", "from", "to"],
        orient="row",
    )
    bounds = [_local(scope, t) for t in window.bounds]
    draw(timelines.gantt(frame, order=order, colours=colours, bounds=bounds), "Who held what, and when")


def _line(scope: Scope, row: dict[str, Any], lines: str) -> str:
    if lines == "tenant":
        return scope.tenant_name(row["tenant"])
    if lines == "workload":
        return str(row["workload"])
    part = f" / {row['instance']}" if row["instance"] else ""
    return f"{row['node']}  {(row['device'] or 'device not known').removeprefix('GPU-')[:8]}{part}"


def _holder(scope: Scope, row: dict[str, Any]) -> str:
    return scope.tenant_name(row["tenant"]) if row["tenant"] else NO_TENANT


def _local(scope: Scope, ms: int) -> str:
    # As the ledger's clock shows it: a browser would move it to its own zone.
    return f"{from_ms(ms).astimezone(scope.zone):%Y-%m-%dT%H:%M:%S}"


def _reservations(scope: Scope) -> None:
    rows = holdings.reservations(scope)
    if not rows:
        st.info("None in this time or later.")
        return
    tables.sums(
        ["Reservation", tables.Cell("Tenant"), tables.Cell("Model"), tables.Cell("From"), tables.Cell("To"), "GPUs"],
        [
            (
                r["id"],
                tables.Cell(scope.tenant_name(r["tenant"])),
                tables.Cell(r["model"]),
                tables.Cell(words.instant(from_ms(r["start"]), scope.zone)),
                tables.Cell(words.instant(from_ms(r["end"]), scope.zone)),
                f"{r['gpus']:,}",
            )
            for r in rows
        ],
    )
