"""All of a period's idle capacity: causes, owners, the list of what to reclaim, and what policies say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from pipelines.config import Config
from pipelines.idle.causes import BY_ID, HELD, IDLE_CAUSES
from pipelines.idle.free import free_items
from pipelines.idle.held import episodes, held_items
from pipelines.idle.items import Item
from pipelines.idle.policies import Hit, hits, policies
from pipelines.instants import from_ms, to_ms
from pipelines.metering import Metered
from pipelines.money import largest_remainder, plain, round_money
from pipelines.periods import Period
from pipelines.rated import Rated
from pipelines.rating import clipped

ZERO: Final = Fraction(0)


@dataclass(frozen=True)
class Idle:
    """What was idle in a period.

    Attributes:
        items: the list of what to reclaim: the most money first, what has no price last.
        known: whether anything of what was held was observed; without that nobody knows of held and idle.
    """

    period: Period
    as_of: datetime
    currency: str
    items: list[Item]
    hits: list[Hit]
    known: bool

    def of(self, tenant: str) -> Idle:
        """Return what concerns one tenant alone."""
        return replace(
            self,
            items=[item for item in self.items if item.owner == tenant],
            hits=[hit for hit in self.hits if hit.tenant == tenant],
        )

    def by_cause(self) -> list[dict[str, Any]]:
        """Return hours and worth of each cause; None: not known."""
        return [
            {"cause": cause.id, "title": cause.title, **self._sums(i for i in self.items if i.cause == cause.id),
             "remedy": cause.remedy}
            if self.known or cause.id not in HELD
            else {"cause": cause.id, "title": cause.title, "gpu_hours": None, "worth": None, "remedy": cause.remedy}
            for cause in IDLE_CAUSES
        ]  # fmt: skip

    def by_owner(self) -> list[dict[str, Any]]:
        """Return hours and worth by owner and cause, the most worth first."""
        groups: dict[tuple[str | None, str], list[Item]] = defaultdict(list)
        for item in self.items:
            groups[item.owner, item.cause].append(item)
        rows = [{"owner": owner, "cause": cause, **self._sums(of)} for (owner, cause), of in groups.items()]
        return sorted(rows, key=lambda r: (-Decimal(r["worth"] or 0), r["owner"] or "", r["cause"]))

    def json(self) -> dict[str, Any]:
        """Return all of it as JSON holds it."""
        return {
            "period": {"from": _utc(self.period.start), "to": _utc(self.period.end)},
            "as_of": _utc(self.as_of),
            "currency": self.currency,
            "causes": self.by_cause(),
            "owners": self.by_owner(),
            "reclaim": [item_json(item) for item in self.items],
            "policies": [hit_json(hit) for hit in self.hits],
        }

    def _sums(self, items: Iterable[Item]) -> dict[str, Any]:
        hours, money, unpriced = ZERO, round_money(0, self.currency), False
        for item in items:
            hours += item.gpu_hours
            money += item.money or 0
            unpriced = unpriced or item.money is None
        # Where a part has no price, what is known of the rest would pass for the whole.
        return {"gpu_hours": round(float(hours), 6), "worth": None if unpriced else plain(money)}


def find_idle(metered: Metered, rated: Rated, config: Config, period: Period, as_of: datetime) -> Idle:
    """Return what was idle in a rated period.

    Idle, stranded and down hours are the report's, each under one cause; what was held is a part of the allocated
    hours, and its worth a part of its tenant's waste.

    Args:
        metered: what `rated` was rated from.
    """
    within = (to_ms(period.start), to_ms(period.end))
    analysis = metered.analysis.within(within)
    usage = clipped(metered.usage, within)
    spells = episodes(usage, metered.leases, analysis, config, within)
    free = free_items(usage, metered.leases, rated, config, within)
    held = held_items(rated, analysis, metered.leases, spells, config, within)
    items = [*held, *_priced(free, config.currency)]
    return Idle(
        period,
        as_of,
        config.currency,
        sorted(items, key=_order),
        hits(policies(config), rated, metered.leases, spells, within),
        known=not analysis.windows.is_empty() or not any(u.held.leases for u in rated.tenants.values()),
    )


def _order(item: Item) -> tuple[bool, Decimal, Fraction, str, str]:
    return item.money is None, -(item.money or Decimal(0)), -item.gpu_hours, item.cause, item.subject


def _priced(items: list[Item], currency: str) -> list[Item]:
    """Round what free capacity is worth, once per cause, so that items add up to their cause."""
    found = []
    for cause in {item.cause for item in items}:
        of = [item for item in items if item.cause == cause]
        exact = {n: item.worth for n, item in enumerate(of) if item.worth is not None}
        total = round_money(sum(exact.values(), ZERO), currency)
        parts = largest_remainder(total, exact, currency) if exact else {}
        found += [replace(item, money=parts.get(n)) for n, item in enumerate(of)]
    return found


def item_json(item: Item) -> dict[str, Any]:
    """Return an item as JSON holds it."""
    return {
        "cause": item.cause,
        "title": BY_ID[item.cause].title,
        "subject": item.subject,
        "cluster": item.cluster,
        "owner": item.owner,
        "user": item.user,
        "node": item.node,
        "model": item.model,
        "gpus": item.gpus,
        "gpu_hours": round(float(item.gpu_hours), 6),
        "worth": None if item.money is None else plain(item.money),
        "first": _utc(from_ms(item.first)),
        "last": _utc(from_ms(item.last)),
        "since": None if item.since is None else _utc(from_ms(item.since)),
        "evidence": item.evidence,
        "remedy": item.remedy,
    }


def hit_json(hit: Hit) -> Mapping[str, Any]:
    """Return what a policy says as JSON holds it."""
    return {
        "policy": hit.policy.name,
        "action": hit.policy.action,
        "counts": hit.policy.counts,
        "source": hit.policy.source,
        "tenant": hit.tenant,
        "cluster": hit.cluster,
        "workload": hit.workload,
        "user": hit.user,
        "gpu_hours": round(float(hit.gpu_hours), 6),
        "idle_gpus": hit.gpus or None,
        "since": None if hit.since is None else _utc(from_ms(hit.since)),
        "busy": hit.busy,
    }


def _utc(t: datetime) -> str:
    return f"{t:%Y-%m-%dT%H:%M:%SZ}"
