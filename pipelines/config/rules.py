"""What must hold between the parts of a configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

from exporter.errors import UsageError
from pipelines.config.reading import Location
from pipelines.config.recorded import since, span
from pipelines.periods import parse_period
from pipelines.selectors import glob_matches

if TYPE_CHECKING:
    from pipelines.config import Config, Reservation

Fault = tuple[Location, str, str]
"""Where, what, mend."""


def check(config: Config) -> None:
    """Raise one validation error that carries every fault found, as ``faults`` of its context."""
    found = faults(config)
    if found:
        raise PydanticCustomError("faults", "{count} faults", {"count": len(found), "faults": found})


def faults(config: Config) -> list[Fault]:
    """Return every fault found."""
    return [
        *_tenants(config),
        *_rates(config),
        *_reservations(config),
        *_names_once(config),
        *_fixed_shares(config),
        *_currencies(config),
        *_reporting(config),
        *_grants(config),
    ]


def speaks_for(rate_model: str, reservation_model: str) -> bool:
    """Whether a rate's glob matches the text of a reservation's own glob."""
    # A glob with [seq] doesn't match its own text.
    return rate_model.casefold() == reservation_model.casefold() or glob_matches(rate_model, reservation_model)


def _tenants(config: Config) -> Iterator[Fault]:
    parents: dict[str, str | None] = {}
    for position, tenant in enumerate(config.tenants):
        if tenant.id in parents:
            yield ("tenants", position, "id"), f"tenant {tenant.id} stands twice", "give each its own id"
        parents.setdefault(tenant.id, tenant.parent)
    for position, tenant in enumerate(config.tenants):
        if tenant.parent is None:
            continue
        at: Location = ("tenants", position, "parent")
        if tenant.parent not in parents:
            yield at, f"no tenant {tenant.parent!r}", f"write one of {_listed(parents)}, or add it"
        elif _in_cycle(tenant.id, parents):
            yield at, f"{tenant.id} is above itself", "take one parent of the circle out"


def _in_cycle(tenant: str, parents: dict[str, str | None]) -> bool:
    above, seen = parents.get(tenant), set[str]()
    while above is not None and above not in seen:
        if above == tenant:
            return True
        seen.add(above)
        above = parents.get(above)
    return False


def _rates(config: Config) -> Iterator[Fault]:
    by_model: dict[tuple[str, datetime], list[tuple[datetime, datetime, int]]] = defaultdict(list)
    for position, rate in enumerate(config.rates):
        by_model[rate.model.casefold(), since(rate)].append((*span(rate), position))
    for spans in by_model.values():
        longest = None
        for one, other in pairwise(sorted(spans)):
            longest = one if longest is None or one[1] > longest[1] else longest
            if other[0] < longest[1]:
                first, second = sorted((longest[2], other[2]))
                model = config.rates[second].model
                yield (
                    ("rates", second),
                    f"overlaps rates[{first}] in time for model {model!r}",
                    "end one with `to` where the other starts, or say when the later one was `recorded`",
                )


def _reservations(config: Config) -> Iterator[Fault]:
    known = {tenant.id: None for tenant in config.tenants}
    seen: set[str] = set()
    for position, reservation in enumerate(config.reservations):
        if reservation.id in seen:
            yield (
                ("reservations", position, "id"),
                f"reservation {reservation.id} stands twice",
                "give each its own id",
            )
        seen.add(reservation.id)
        if reservation.tenant not in known:
            yield (
                ("reservations", position, "tenant"),
                f"reservation {reservation.id} is of no known tenant: {reservation.tenant!r}",
                f"write one of {_listed(known)}, or add the tenant",
            )
        gap = _first_without_rate(config, reservation)
        if gap is not None:
            yield (
                ("reservations", position),
                f"reservation {reservation.id} has no rate for model {reservation.model!r} from {gap}",
                "give it a `rate` of its own, or add a matching entry to rates",
            )


def _first_without_rate(config: Config, reservation: Reservation) -> str | None:
    if reservation.rate is not None:
        return None
    reached = reservation.from_
    for start, end in sorted(span(rate) for rate in config.rates if speaks_for(rate.model, reservation.model)):
        if start > reached:
            break
        reached = max(reached, end)
    return None if reached >= reservation.to else reached.astimezone(config.timezone).isoformat()


def _names_once(config: Config) -> Iterator[Fault]:
    seen: set[tuple[str, datetime]] = set()
    for position, overhead in enumerate(config.overheads):
        named = overhead.name, since(overhead)
        if named in seen:
            yield (
                ("overheads", position, "name"),
                f"overhead {overhead.name!r} stands twice",
                "give each its own name, or say when the later one was `recorded`",
            )
        seen.add(named)


def _fixed_shares(config: Config) -> Iterator[Fault]:
    known = dict.fromkeys(tenant.id for tenant in config.tenants)
    for position, overhead in enumerate(config.overheads):
        for tenant in overhead.shares:
            if tenant not in known:
                yield (
                    ("overheads", position, "shares"),
                    f"no tenant {tenant!r}",
                    f"write one of {_listed(known)}, or add it",
                )


def _currencies(config: Config) -> Iterator[Fault]:
    spans: dict[tuple[str, datetime], list[tuple[datetime, datetime, int]]] = defaultdict(list)
    for position, entry in enumerate(config.exchange):
        if entry.currency == config.currency:
            yield (
                ("exchange", position, "currency"),
                f"{entry.currency} is the ledger's own currency",
                "take the entry out",
            )
        spans[entry.currency, since(entry)].append((*span(entry), position))
    for (currency, _), entries in spans.items():
        for one, other in pairwise(sorted(entries)):
            if other[0] < one[1]:
                first, second = sorted((one[2], other[2]))
                yield (
                    ("exchange", second),
                    f"overlaps exchange[{first}] in time for {currency}",
                    "end one with `to` where the other starts, or say when the later one was `recorded`",
                )
    for position, tenant in enumerate(config.tenants):
        if tenant.currency not in {None, config.currency, *(entry.currency for entry in config.exchange)}:
            yield (
                ("tenants", position, "currency"),
                f"no rate of exchange for {tenant.currency}",
                f'add {{currency: {tenant.currency}, rate: "…"}} to exchange',
            )


def _reporting(config: Config) -> Iterator[Fault]:
    if config.scrape_interval is not None and config.scrape_interval <= timedelta(0):
        yield ("scrape_interval",), "an interval of nothing", "write it as 60s, or leave it out"
    if config.period is None:
        return
    if config.window is not None:
        yield ("period",), "stands beside `window`, and only one can be reported on", "keep one of them"
    try:
        parse_period(config.period, config.timezone)
    except UsageError as error:
        what, _, mend = str(error).partition("; ")
        yield ("period",), what, mend


def _listed(tenants: dict[str, str | None] | dict[str, None]) -> str:
    shown = list(tenants)[:5]
    return ", ".join(shown) + (", …" if len(tenants) > len(shown) else "") if shown else "none yet"


def _grants(config: Config) -> Iterator[Fault]:
    known = dict.fromkeys(tenant.id for tenant in config.tenants)
    named = [(("access", "grants", n, "tenants"), grant.tenants) for n, grant in enumerate(config.access.grants)]
    named += [(("access", "tokens", n, "tenants"), token.tenants) for n, token in enumerate(config.access.tokens)]
    for at, tenants in named:
        for tenant in tenants:
            if tenant not in known:
                yield at, f"no tenant {tenant!r}", f"write one of {_listed(known)}, or add it"
