"""Who pays for idle capacity and overheads.

Readings
  H1. Unused reservations are netted from the period's idle of each model, reservations in file order, models by name;
      what remains of a model's idle is priced at the mean of its on-demand rates over its idle. Rejected: netting
      instant by instant ("once per period").
  H2. The period's idle of all models is one amount, rounded, then shared. Rejected: model by model.
  H3. An overhead is rounded and shared by itself; a tenant's line is the sum of its parts. Under policy `owner` each
      tenant's idle is a line of its own, rounded once.
  H4. `even` is over tenants with allocated hours or a reservation (its time overlapping the period).
  H5. The unattributed are no tenant under `even`; under `proportional` they weigh by allocated hours × rate.
"""

from __future__ import annotations

from fractions import Fraction

from tests.oracle.accounts import NOBODY, Account, Amounts, Sums
from tests.oracle.money import largest_remainder, to_units
from tests.oracle.settings import Settings, local_months, model_matches


def idle_lines(accounts: dict[str, Account], sums: Sums, settings: Settings) -> dict[str, int]:
    if settings.idle_policy == "owner":
        return _owner_idle(accounts, sums, settings)
    left = dict(sums.idle_hours)
    for reservation in settings.reservations:
        unused = accounts[reservation.tenant].unused[reservation.id] if reservation.tenant in accounts else Fraction(0)
        _net(unused, left, reservation.model)
    exact = sum((sums.idle_price[m] * left[m] / sums.idle_hours[m] for m in left if sums.idle_hours[m]), Fraction(0))
    return share_out(to_units(exact, settings.currency), settings.idle_policy, accounts)


def _owner_idle(accounts: dict[str, Account], sums: Sums, settings: Settings) -> dict[str, int]:
    lines = {}
    for owner in {owner for owner, _ in sums.owned_hours} & {t.id for t in settings.tenants}:
        left = {model: hours for (who, model), hours in sums.owned_hours.items() if who == owner}
        for reservation in settings.reservations:
            if reservation.tenant == owner:
                _net(accounts[owner].unused[reservation.id], left, reservation.model)
        exact = sum(
            (sums.owned_price[owner, m] * left[m] / sums.owned_hours[owner, m] for m in left if left[m]), Fraction(0)
        )
        lines[owner] = to_units(exact, settings.currency)
    return lines


def _net(unused: Fraction, left: Amounts, glob: str) -> None:
    for model in sorted(left):
        if model_matches(glob, model):
            part = min(unused, left[model])
            left[model] -= part
            unused -= part


def share_out(total: int, key: str, accounts: dict[str, Account]) -> dict[str, int]:
    """Minor units by tenant; NOBODY's part stays unbilled."""
    if key == "proportional":
        return largest_remainder(total, {name: a.weight for name, a in accounts.items() if a.weight})
    if key == "even":
        users = [n for n, a in accounts.items() if n != NOBODY and (a.allocated or a.has_reservation)]
        return largest_remainder(total, dict.fromkeys(users, Fraction(1)))
    return {}


def overhead_amounts(settings: Settings, start: int, end: int) -> list[tuple[str, Fraction]]:
    amounts = []
    for overhead in settings.overheads:
        months = local_months(start, end, settings.zone)
        share = sum((Fraction(max(0, min(end, b) - max(start, a)), b - a) for a, b in months), Fraction(0))
        amounts.append((overhead.split, overhead.monthly * share))
    return amounts
