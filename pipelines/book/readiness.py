"""Whether a month can be closed: in its turn, over, past its grace, covered, with no finding that holds it open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final, Literal

import polars as pl

from exporter.errors import WorkError
from pipelines.book.reckoning import Reckoned, Reckoning, name
from pipelines.config import Config
from pipelines.instants import from_ms, to_ms
from pipelines.metering import Metered
from pipelines.periods import Period, local_months, parse_period

State = Literal["open", "grace", "due", "proposed", "closed"]
SHOWN_MONTHS: Final = 6


@dataclass(frozen=True)
class MonthState:
    """How far a month is.

    Attributes:
        state: open until it ends; grace until late data is no longer awaited; due; proposed where a second person must
            approve; closed.
        until: when the state ends by itself; None: it doesn't.
        problems: what holds it open.
    """

    period: str
    state: State
    until: datetime | None = None
    problems: Sequence[str] = ()


def month_states(
    reckoning: Reckoning, metered: Metered, config: Config, now: datetime, proposed: Sequence[str] = ()
) -> list[MonthState]:
    """Return the states of all months of the data, the oldest first."""
    done = {book.period for book in reckoning.closed}
    states = [MonthState(period, "closed") for period in sorted(done)]
    for period in _months(metered, config):
        span = parse_period(period, config.timezone)
        if period in done:
            continue
        if now < span.end:
            states.append(MonthState(period, "open", span.end))
            continue
        problems = list(unready(reckoning.of(span), config))
        if now < span.end + config.closing.grace:
            states.append(MonthState(period, "grace", span.end + config.closing.grace, problems))
        else:
            states.append(MonthState(period, "proposed" if period in proposed else "due", None, problems))
    return sorted(states, key=lambda s: s.period)


def hold_to_the_order(reckoning: Reckoning, metered: Metered, config: Config, period: str, *, force: bool) -> None:
    """Hold to the order: months are closed one after the other, each once.

    Args:
        force: let the first month that is closed leave earlier ones open for good.

    Raises:
        WorkError: it isn't this month's turn.
    """
    done = [book.period for book in reckoning.closed]
    if period in done:
        raise WorkError(f"{period} is closed already; book what is wrong in it with `gpuledger adjust`")
    reckoning.hold_in_step()
    following = reckoning.open_period
    if done and period < done[0]:
        raise WorkError(f"{period}: was left open for good when {done[0]} was closed as the first month")
    if done and period != following:
        raise WorkError(f"{period}: months are closed in turn, and {following} comes next")
    if following is None or period < following:
        raise WorkError(f"{period}: the ledger holds nothing of it; its first month is {following or 'still to come'}")
    earlier = [month for month in _months(metered, config) if month < period and _held(metered, config, month)]
    if not done and earlier and not force:
        named = ", ".join(earlier[:SHOWN_MONTHS]) + (
            f" and {len(earlier) - SHOWN_MONTHS} more" if earlier[SHOWN_MONTHS:] else ""
        )
        raise WorkError(
            f"{period} can't be closed first: earlier months hold usage and are open: {named}; close them in turn, or"
            " leave them open for good with --force --reason WHY"
        )


def _months(metered: Metered, config: Config) -> Iterator[str]:
    if metered.span is None:
        return
    start, end = (from_ms(t) for t in metered.span)
    for month in local_months(start, end, config.timezone):
        yield name(month, config)


def _held(metered: Metered, config: Config, month: str) -> bool:
    """Return whether anybody held anything in a month."""
    span = parse_period(month, config.timezone)
    start, end = to_ms(span.start), to_ms(span.end)
    held = metered.usage.filter((pl.col("state") == "allocated") & (pl.col("start") < end) & (pl.col("end") > start))
    return held.height > 0


def in_grace(span: Period, config: Config, now: datetime) -> Iterator[str]:
    """Say that late data is still awaited."""
    if now < span.end + config.closing.grace:
        until = (span.end + config.closing.grace).astimezone(config.timezone)
        yield f"late data is awaited until {until:%Y-%m-%d %H:%M} (closing.grace)"


def unready(reckoned: Reckoned, config: Config) -> Iterator[str]:
    """Name what of a month's own holds it open: low coverage, and findings."""
    held = [use.held for use in reckoned.rated.tenants.values()]
    allocated, seen = sum((h.allocated for h in held), Fraction(0)), sum((h.seen for h in held), Fraction(0))
    if allocated and seen / allocated < Fraction(config.closing.coverage):
        yield f"coverage is {float(seen / allocated):.1%}, below closing.coverage of {config.closing.coverage:.1%}"
    for finding in reckoned.report.findings:
        if finding.code in config.closing.findings:
            yield f"{finding.code} ({finding.count}): {finding.detail}"
