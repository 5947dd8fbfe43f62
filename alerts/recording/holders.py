"""Who holds what: from pods and jobs on devices to tenants' GPUs, each device counted once.

A pod or job becomes a tenant by the selectors of the configuration, first match first, as the ledger has it. The
holder's own labels end here: what is recorded names the tenant alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from alerts.rule import RecordingRule
from alerts.stock import Stock
from pipelines.config import Config, Selector
from pipelines.promql.expressions import anchored, by, during, quote, replaced
from pipelines.promql.holders import HOLDABLE, SHARE, dcgm_holders, our_holders
from pipelines.promql.normalise import BOARD, DEVICE, DEVICE_IDENTITY
from pipelines.promql.recorded import HELD, IDENTITY, SLOTS, WEIGHT
from pipelines.selectors import LIST_KEYS, SELECTOR_KEYS

UNATTRIBUTED: Final = "unattributed"
"""The tenant of what somebody holds and no selector matches. Real tenants can't be shadowed: see ``tenant_edges``."""

_SEPARATOR: Final = ";"
_LABEL_OF_KEY: Final = {
    "namespace": "holder_namespace",
    "pod": "holder_pod",
    "slurm_account": "account",
    "slurm_partition": "partition",
    "slurm_qos": "qos",
    "slurm_user": "user",
}
_TEXT: Final = f"[^{_SEPARATOR}]"


def holders(config: Config, stock: Stock) -> Iterator[RecordingRule]:
    """GPUs held, by device and tenant."""
    who = ("tenant", "spot") if config.spot else ("tenant",)
    parts = _parts(config, by(*DEVICE, *who), sliced=bool(stock.slots), tenanted=True)
    # What the parts of a device come to needs no tenants, which cost most of the reckoning.
    held = f"clamp_min({_parts(config, by(*DEVICE), sliced=bool(stock.slots), tenanted=False)}, 1)"
    if stock.slots:
        # Slices that nobody holds are free: a card's share is of all its slices.
        both = f'label_replace({held}, "of", "held", "", "") or label_replace({SLOTS}, "of", "slots", "", "")'
        held = f"max by {by(*DEVICE)} ({both})"
    size = f"topk by {by(*DEVICE)} (1, {WEIGHT} or on {by(*DEVICE)} {IDENTITY})"
    yield RecordingRule(
        HELD,
        f"{parts} / on {by(*DEVICE)} group_left () {held} * on {by(*DEVICE)} group_left {by(*DEVICE_IDENTITY)} {size}",
    )


def _parts(config: Config, labels: str, *, sliced: bool, tenanted: bool) -> str:
    """Shares that our exporter reckons; slices of cards whose slots are known and dcgm-exporter's holders, counted."""

    def of(rows: str) -> str:
        return f"({_tenanted(config, rows)})" if tenanted else f"({rows})"

    ours = of(our_holders(config) if tenanted else SHARE)
    shares = f"sum by {labels} {ours}"
    theirs = f"(count by {labels} {of(dcgm_holders(config))} unless on {by(*BOARD)} {HOLDABLE})"
    if not sliced:
        return f"({shares} or {theirs})"
    slices = f"({SHARE} and on {by(*BOARD)} {SLOTS})"
    counted = f"count by {labels} {of(our_holders(config, slices) if tenanted else slices)}"
    return f"({counted} or {shares} or {theirs})"


def _tenanted(config: Config, rows: str) -> str:
    """The rows with the labels ``tenant`` and, for spot workloads, ``spot``."""
    sources = ", ".join(quote(_LABEL_OF_KEY.get(key, key)) for key in SELECTOR_KEYS)
    keyed = f"label_join({rows}, {quote('key')}, {quote(_SEPARATOR)}, {sources})"
    return " or ".join(
        during(f"({_matched(config, keyed, start)})", start, end) if len(spans) > 1 else _matched(config, keyed, start)
        for spans in [_spans(config)]
        for start, end in spans
    )


def _spans(config: Config) -> list[tuple[datetime | None, datetime | None]]:
    """Stretches of time in which the same selectors hold."""
    edges = tenant_edges(config)
    return list(zip([None, *edges], [*edges, None], strict=True))


def tenant_edges(config: Config) -> list[datetime]:
    """When a dated selector begins or ends."""
    every = [*(selector for tenant in config.tenants for selector in tenant.match), *config.spot]
    return sorted({time for selector in every for time in (selector.from_, selector.to) if time is not None})


def _matched(config: Config, keyed: str, at: datetime | None) -> str:
    # Each replacement overwrites the one before it, so the first selector of the file stands last.
    expression = replaced(keyed, "tenant", UNATTRIBUTED, "", "")
    for tenant in reversed(config.tenants):
        for selector in _holding(tenant.match, at):
            expression = replaced(expression, "tenant", tenant.id, "key", _pattern(selector))
    for selector in _holding(config.spot, at):
        expression = replaced(expression, "spot", "true", "key", _pattern(selector))
    return expression


def _holding(selectors: Sequence[Selector], at: datetime | None) -> list[Selector]:
    # What only schedulers know of, Prometheus can't match by: there it matches nothing.
    selectors = [s for s in selectors if not any(key in LIST_KEYS for key, _ in s.globs)]
    if at is None:  # before every edge
        return [selector for selector in selectors if selector.from_ is None]
    return [selector for selector in selectors if selector.holds(at)]


def _pattern(selector: Selector) -> str:
    globs = dict(selector.globs)
    parts = []
    for key in SELECTOR_KEYS:
        glob = globs.get(key)
        if glob is None:
            parts.append(f"{_TEXT}*")
        elif not glob.strip("*"):
            parts.append(f"{_TEXT}+")  # an absent label matches nothing, not even `*`
        else:
            parts.append(anchored(glob, _TEXT).removeprefix("(?i)"))
    return "(?i)" + _SEPARATOR.join(parts)
