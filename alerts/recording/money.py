"""Prices in force now and what is spent an hour, from the rate card that the ledger rates by."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Final

from alerts.rule import RecordingRule
from pipelines.config import Config, Reservation, reservation_rate
from pipelines.promql.expressions import by, during, model_is, number, selector
from pipelines.promql.recorded import (
    BUDGET,
    BY_CLASS,
    FREE_COST,
    IDENTITY,
    IDLE_COST,
    MODEL_FREE,
    PRICE,
    RESERVATION_COST,
    TENANT_COST,
    TENANT_IDLE,
    USAGE_COST,
)

CLASSES: Final = ("on_demand", "reserved", "overflow", "spot")


def money(config: Config) -> Iterator[RecordingRule]:
    """Prices, and money an hour."""
    if config.rates:
        for class_ in CLASSES:
            yield RecordingRule(PRICE, _price(config, class_), {"class": class_})
    for reservation in config.reservations:
        named = {"tenant": reservation.tenant, "reservation": reservation.id}
        yield RecordingRule(RESERVATION_COST, _reservation_cost(config, reservation), named)
    price = f"on {by('model', 'class')} group_left () {PRICE}"
    yield RecordingRule(USAGE_COST, f'{BY_CLASS}{{class!="reserved"}} * {price}')
    spent = f"sum by (tenant) ({USAGE_COST} or {RESERVATION_COST})"
    # A tenant with a budget that holds nothing spends nothing: that is known, and not a gap.
    yield RecordingRule(TENANT_COST, f"{spent} or on (tenant) 0 * {BUDGET}")
    on_demand = f'group_left () sum by (model) ({PRICE}{{class="on_demand"}})'
    yield RecordingRule(IDLE_COST, f"{TENANT_IDLE} * on (model) {on_demand}")
    yield RecordingRule(FREE_COST, f"{MODEL_FREE} * on (model) {on_demand}")


def _price(config: Config, class_: str) -> str:
    """The first entry of the rate card that matches model and time."""
    entries = []
    for rate in config.rates_in_force:
        models = f"group by (model) ({selector(IDENTITY.name, model_is(rate.model))})"
        entries.append(during(f"(0 * {models} + {number(rate.price(class_))})", rate.from_, rate.to))
    return " or on (model) ".join(entries)


def _reservation_cost(config: Config, reservation: Reservation) -> str:
    dated = {t for rate in config.rates_in_force for t in (rate.from_, rate.to) if t is not None}
    inside = sorted(t for t in dated if reservation.from_ < t < reservation.to)
    edges: list[datetime] = [reservation.from_, *inside, reservation.to]
    stretches = []
    for start, end in pairwise(edges):
        an_hour = reservation.gpus * reservation_rate(config, reservation, start)
        stretches.append(during(f"vector({number(an_hour)})", start, end))
    return " or ".join(stretches)
