"""What tenants hold, by class, against quotas and reservations: the design's rules, at this instant.

Where one tenant's reservations or quota span several models, what they take is split over the models in proportion to
what is held of each; the ledger goes lease by lease, and comes to the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.rule import RecordingRule
from pipelines.config import Config, Reservation
from pipelines.promql.expressions import by, during, model_is, number, quote, selector
from pipelines.promql.normalise import DEVICE
from pipelines.promql.recorded import (
    BUDGET,
    BUDGET_HOURS,
    BUSY,
    BY_CLASS,
    HELD,
    QUOTA,
    RESERVATION_END,
    RESERVATION_USED,
    RESERVED,
    RESERVED_USED,
    TENANT_ACTIVE,
    TENANT_HELD,
    TENANT_IDLE,
)

IDLE_BELOW: Final = 0.05
"""Mean engine activity over an hour under which a held device is idle (facts: engine, SM and DRAM all under 5 %)."""

_MODELS: Final = by("tenant", "model")


def tenants(config: Config) -> Iterator[RecordingRule]:
    """Holdings, terms and classes."""
    yield from _terms(config)
    yield RecordingRule(TENANT_HELD, f"sum by {by('tenant', 'model', 'spot')} ({HELD})")
    hour = f"avg_over_time({BUSY}[1h])"
    # Held by the same tenant an hour ago: what a card did before is not its doing.
    since = f"{HELD} and {HELD} offset 55m"
    yield RecordingRule(TENANT_IDLE, f"sum by {_MODELS} ({since} and on {by(*DEVICE)} ({hour} < {IDLE_BELOW}))")
    activity = f"max by {by(*DEVICE)} ({BUSY})"
    yield RecordingRule(TENANT_ACTIVE, f"sum by {_MODELS} ({HELD} * on {by(*DEVICE)} group_left () {activity})")
    for place, reservation in enumerate(config.reservations):
        yield _used(reservation, [r for r in config.reservations[:place] if r.tenant == reservation.tenant])
    if config.reservations:
        used = f"sum by {by('tenant', 'reservation')} ({RESERVED_USED})"
        yield RecordingRule(RESERVATION_USED, f"({used} or 0 * {RESERVED}) / {RESERVED}")
    yield from _classes(bool(config.reservations), any(tenant.quota for tenant in config.tenants))


def _terms(config: Config) -> Iterator[RecordingRule]:
    for tenant in config.tenants:
        of_tenant = {"tenant": tenant.id}
        if tenant.quota is not None and tenant.quota.gpus is not None:
            yield RecordingRule(QUOTA, f"vector({tenant.quota.gpus})", of_tenant)
        if tenant.budget is not None and tenant.budget.monthly is not None:
            yield RecordingRule(BUDGET, f"vector({number(tenant.budget.monthly)})", of_tenant)
        if tenant.budget is not None and tenant.budget.gpu_hours is not None:
            yield RecordingRule(BUDGET_HOURS, f"vector({number(tenant.budget.gpu_hours)})", of_tenant)
    for r in config.reservations:
        named = {"tenant": r.tenant, "reservation": r.id}
        yield RecordingRule(RESERVED, during(f"vector({r.gpus})", r.from_, r.to), named)
        yield RecordingRule(RESERVATION_END, during(f"vector({r.to.timestamp():.0f})", r.from_, r.to), named)


def _used(reservation: Reservation, earlier: list[Reservation]) -> RecordingRule:
    held = selector(
        TENANT_HELD.name, f"tenant={quote(reservation.tenant)}", 'spot=""', model_is(reservation.model)
    )  # fmt: skip
    left = f"sum by {_MODELS} ({held})"
    if earlier:
        taken = selector(RESERVED_USED.name, f"reservation=~{quote('|'.join(_literal(r.id) for r in earlier))}")
        left = f"clamp_min({left} - on {_MODELS} (sum by {_MODELS} ({taken}) or 0 * {left}), 0)"
    part = f"on () group_left () clamp_max({reservation.gpus} / sum({left}), 1)"
    used = during(f"({left} * {part} > 0)", reservation.from_, reservation.to)
    return RecordingRule(RESERVED_USED, used, {"reservation": reservation.id})


def _literal(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else f"[{c}]" for c in text)


def _classes(reservations: bool, quotas: bool) -> Iterator[RecordingRule]:
    held = f'sum by {_MODELS} ({TENANT_HELD}{{spot=""}})'
    used = f"sum by {_MODELS} ({RESERVED_USED})"
    spot = f'sum by {_MODELS} ({TENANT_HELD}{{spot="true"}})'
    yield RecordingRule(BY_CLASS, spot, {"class": "spot"})
    if reservations:
        yield RecordingRule(BY_CLASS, used, {"class": "reserved"})
    beyond = (
        f'({held} - on {_MODELS} ({BY_CLASS}{{class="reserved"}} or on {_MODELS} 0 * {held}) > 0)'
        if reservations
        else held
    )
    # With a quota, what fits its rest is on demand; without one, what exceeds an active reservation is overflow.
    free = f"({beyond} unless on (tenant) {QUOTA})" if quotas else beyond
    if reservations:
        free = f'({free} unless on {_MODELS} {BY_CLASS}{{class="reserved"}})'
    limited = []
    if quotas:
        reserved = f'sum by (tenant) ({BY_CLASS}{{class="reserved"}})'
        rest = f"clamp_min({QUOTA} - on (tenant) ({reserved} or 0 * {QUOTA}), 0)"
        fits = f"clamp_max({rest} / on (tenant) sum by (tenant) ({beyond}), 1)"
        limited.append(f"{beyond} * on (tenant) group_left () ({fits})")
    yield RecordingRule(BY_CLASS, " or ".join([*limited, free]), {"class": "on_demand"})
    taken = f'({BY_CLASS}{{class="on_demand"}} or on {_MODELS} 0 * {held})'
    yield RecordingRule(BY_CLASS, f"{beyond} - on {_MODELS} {taken} > 0", {"class": "overflow"})
