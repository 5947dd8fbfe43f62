"""What a tenant is told of its idle GPUs: text that a site mails by its own means, and JSON."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from textwrap import fill
from typing import Any, Final

from pipelines.config import Config
from pipelines.idle.causes import BY_ID, IDLE_CAUSES
from pipelines.idle.found import Idle
from pipelines.idle.items import Item
from pipelines.idle.policies import Hit
from pipelines.instants import from_ms
from pipelines.money import format_money

_LISTED: Final = 10
_WIDTH: Final = 76  # of a mail that is quoted once
_SAYS: Final = {
    "mail": "is over the limit of policy {policy}",
    "warn": "is about to be ended under policy {policy}",
    "cancel": "may be ended under policy {policy}",
}


def notice_json(idle: Idle, tenant: str, config: Config) -> dict[str, Any]:
    """Return the notice's facts; `idle` is of all tenants."""
    own = idle.of(tenant)
    return {"tenant": tenant, "name": _name(tenant, config), **own.json(), "text": notice(idle, tenant, config)}


def notice(idle: Idle, tenant: str, config: Config) -> str:
    """Return the notice as text, without a trailing newline."""
    own = idle.of(tenant)
    zone = config.timezone

    def local(t: datetime) -> str:
        return f"{t.astimezone(zone):%Y-%m-%d %H:%M}"

    lines = [
        f"Idle GPUs of {_name(tenant, config)}, {local(own.period.start)} to {local(own.period.end)}",
        "",
    ]
    if not own.items and not own.hits:
        known = "no GPU of yours stood idle" if own.known else "nothing of what you held was observed"
        return "\n".join([*lines, f"{known[0].upper()}{known[1:]}, as far as is known."])
    total = sum((item.money or Decimal(0) for item in own.items), Decimal(0))
    opening = (
        f"GPUs that {_name(tenant, config)} held or reserved and didn't use were worth "
        f"{format_money(total, idle.currency)} at the on-demand price. Only the idle GPUs of a job are counted, and a "
        f"time without measurements is not counted as idle. Times are {zone.key}; as of {local(own.as_of)}."
    )
    lines += [fill(opening, _WIDTH), ""]
    for hit in _gravest(own.hits)[:_LISTED]:
        lines += [fill(_said(hit, local), _WIDTH, initial_indent="! ", subsequent_indent="  ")]
    lines += [""] if own.hits else []
    for cause in IDLE_CAUSES:
        of = [item for item in own.items if item.cause == cause.id]
        if of:
            lines += [cause.title]
            lines += [f"  {_line(item, idle.currency, local)}" for item in of[:_LISTED]]
            lines += [f"  and {len(of) - _LISTED} more"] if len(of) > _LISTED else []
            lines += [
                fill(f"To free it: {BY_ID[cause.id].remedy}.", _WIDTH, initial_indent="  ", subsequent_indent="  ")
            ]
            lines += [""]
    return "\n".join(lines).rstrip()


def _gravest(hits: list[Hit]) -> list[Hit]:
    """Return one hit for each workload and way to count: who is told of the last warning knows of the first."""
    last: dict[tuple[str, str, str], Hit] = {}
    for hit in hits:  # in the order of the policies, which grow stricter
        key = (hit.cluster, hit.workload, hit.policy.counts)
        if key not in last or hit.policy.minutes >= last[key].policy.minutes:
            last[key] = hit
    return list(last.values())


def _name(tenant: str, config: Config) -> str:
    return next((t.name for t in config.tenants if t.id == tenant and t.name), tenant)


def _said(hit: Hit, local: Any) -> str:
    who = _shown(hit.workload) + (f" of {_shown(hit.user)}" if hit.user else "")
    since = f" since {local(from_ms(hit.since))}" if hit.since is not None else ""
    what = f"{hit.gpus} idle GPU{'s' if hit.gpus > 1 else ''}" if hit.gpus else f"a mean utilisation of {hit.busy:.1%}"
    says = _SAYS[hit.policy.action].format(policy=hit.policy.name)
    return f"{who} {says}: {what}{since}, {float(hit.gpu_hours):,.1f} GPU-hours"


def _line(item: Item, currency: str, local: Any) -> str:
    money = "n/a" if item.money is None else format_money(item.money, currency)
    when = f"since {local(from_ms(item.since))}" if item.since is not None else f"last {local(from_ms(item.last))}"
    who = f" ({_shown(item.user)})" if item.user else ""
    return f"{money:>14}  {float(item.gpu_hours):>9,.1f} GPU-h  {when}  {_shown(item.subject)}{who}"


def _shown(text: str) -> str:
    """Return a name from labels without what would steer a terminal or a mail reader."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
