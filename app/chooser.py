"""What the address and the controls above every page say: tenant, days, and the days to compare with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Final, cast

import streamlit as st

from app import address, grafana
from app.ledger_files import LedgerFiles, Reader
from app.scope import Contents, Scope, Span, contents, month_to_open
from app.sign_in import Viewer
from app.spans import KINDS, Days, Kind, containing, parse, touching
from exporter.errors import LedgerError
from pipelines.config import Config

ALL: Final = ""  # no tenant has that id
BEFORE: Final = "before"
YEAR: Final = "year"
NONE: Final = "none"
PICK: Final = "pick"
MOST: Final = 400
"""Ranges to choose from; older ones are reached by their dates."""
NAMES: Final[dict[Kind, str]] = {
    "month": "Month",
    "day": "Day",
    "week": "Week",
    "quarter": "Quarter",
    "year": "Year",
    "days": "From – to",
}


def choose(config: Config, files: LedgerFiles, who: Viewer) -> Scope:
    """Draw the controls and return what they choose.

    Raises:
        LedgerError: nothing is published, or the ledger holds no usage, or none of a member's tenants has any.
    """
    as_of = files.publication().as_of
    grafana.take_tenant()
    with st.container(horizontal=True):
        reader, tenant = _own(files, who.tenants) if who.tenants is not None else _any(files, as_of)
        known = contents(reader, whole_fleet=who.tenants is None, as_of=as_of)
        if not known.months:
            raise LedgerError("the ledger holds no usage yet; check `sources` and run `gpuledger run --once`")
        span = _span(known, as_of)
        other = _other(known, span)
    whole_fleet = who.tenants is None
    return Scope(config, reader, whole_fleet, known.currency, known.zone, as_of, span, other, tenant, known.tenants)


def _any(files: LedgerFiles, as_of: datetime) -> tuple[Reader, str | None]:
    """Let an operator choose among all tenants, in the fleet's file."""
    reader = files.fleet()
    tenants = contents(reader, whole_fleet=True, as_of=as_of).tenants
    names = {ALL: "All tenants", **{t.id: t.name for t in tenants.values()}}
    chosen = address.select("Tenant", "tenant", list(names), ALL, names.__getitem__, width=address.WIDE)
    return reader, None if chosen == ALL else chosen


def _own(files: LedgerFiles, tenants: tuple[str, ...]) -> tuple[Reader, str]:
    """Let a member choose among the tenants of their own, each in its own file.

    A name is in that file too, so only the chosen one's is opened; the others show their ids.
    """
    published = [tenant for tenant in tenants if tenant in files.publication().tenants]
    if not published:
        raise LedgerError("your tenants have no usage, reservation or charge yet; nothing is published for them")
    chosen = address.select("Tenant", "tenant", published, published[0], str, width=address.WIDE)
    reader = files.tenant(chosen)
    if reader is None:
        raise LedgerError(f"{chosen}: nothing is published any more; load the page again")
    return reader, chosen


def _span(known: Contents, as_of: datetime) -> Span:
    """Let people choose the days: a calendar range by name, or any from one day to another."""
    opened = month_to_open(known, as_of).days
    state = st.session_state
    if address.left("time"):
        state["time"] = opened
    given = address.brought("time")
    month = address.take("month")  # as links had it before there were other ranges
    given = month if given is None else given
    asked = grafana.take_range(known.zone) or (parse(given) if given else None)
    if asked is not None and known.span(asked) is not None:
        state["time"] = asked
    elif asked is not None or given:
        address.refused("time")
    span = known.span(state.get("time", opened)) or known.span(opened)
    assert span is not None  # noqa: S101  the newest month of the ledger lies in it
    days = state["time"] = span.days
    state["kind"] = days.kind
    st.selectbox(
        "Time by",
        KINDS,
        format_func=NAMES.__getitem__,
        key="kind",
        width=address.NARROW,
        on_change=_kind,
        args=(span, known),
    )
    first, after = known.months[0].days.first, known.months[-1].days.after
    if days.kind == "days":
        _dates("From – to", "dates", days, (first, after), lambda found: state.update(time=found))
    else:
        options = [d.key for d in touching(first, after, days.kind)[:MOST] if known.span(d) is not None]
        options += [] if days.key in options else [days.key]
        state["when"] = days.key
        st.selectbox(
            NAMES[days.kind],
            options,
            format_func=_label,
            key="when",
            width=address.NARROW,
            on_change=lambda: state.update(time=parse(state["when"])),
        )
    address.written("time", days.key, opened.key)
    return span


def _kind(span: Span, known: Contents) -> None:
    """Go from the range to one of the kind chosen: the last of it that the ledger holds data of."""
    kind = cast("Kind", st.session_state["kind"])
    days = span.days
    if kind == "days":
        st.session_state["time"] = Days("days", days.first, days.after)
        return
    last = days.last
    if span.seen_to is not None and span.seen_to < span.end:
        last = max(days.first, min(last, (span.seen_to - timedelta(milliseconds=1)).astimezone(known.zone).date()))
    st.session_state["time"] = containing(last, kind)


def _dates(label: str, key: str, days: Days, bounds: tuple[date, date], take: Callable[[Days], None]) -> None:
    state = st.session_state
    first, after = min(bounds[0], days.first), max(bounds[1], days.after)
    if len(state.get(key, ())) != 1:  # one of two is picked: the other comes with the next click
        state[key] = (days.first, days.last)

    def picked() -> None:
        if len(chosen := state[key]) == 2:
            take(Days("days", chosen[0], chosen[1] + timedelta(days=1)))

    st.date_input(
        label,
        key=key,
        min_value=first,
        max_value=after - timedelta(days=1),
        format="YYYY-MM-DD",
        width=address.NARROW + 60,
        on_change=picked,
    )


def _other(known: Contents, span: Span) -> Span | None:
    """Let people choose what to compare with: the range before, a year before, another of the kind, or any."""
    state, days = st.session_state, span.days
    first, after = known.months[0].days.first, known.months[-1].days.after
    relative = {BEFORE: days.before(), YEAR: days.year_before()}
    given = parse(address.brought("compare") or "")
    if given is not None and known.span(given) is not None:
        state["compared"] = given
    alike = touching(first, after, "month" if days.kind == "days" else days.kind)[:MOST]
    named = [state["compared"]] if "compared" in state else []
    absolute = {d.key: d for d in [*named, *alike] if d not in (days, *relative.values()) or d in named}
    names = {
        BEFORE: relative[BEFORE].short,
        YEAR: "A year before",
        NONE: "Nothing",
        **{key: d.short for key, d in absolute.items()},
        PICK: "Other days …",
    }
    chosen = address.select("Compared with", "compare", list(names), BEFORE, names.__getitem__)
    if chosen == PICK:

        def take(found: Days) -> None:
            state["compared"], state["compare"] = found, found.key

        _dates("Days to compare with", "other dates", relative[BEFORE], (first, after), take)
    found = relative.get(chosen) or absolute.get(chosen)
    return None if found is None else known.span(found)


def _label(key: str) -> str:
    days = parse(key)
    return key if days is None else days.short
