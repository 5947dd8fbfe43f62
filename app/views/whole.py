"""That nothing is missing: a page's own amounts, other tenants, and what nobody pays make the fleet's cost."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from app import tables, words
from app.accounts import ZERO, places
from app.scope import Scope
from app.shares import elsewhere


def show(scope: Scope, own: Iterable[tuple[str, Decimal]]) -> None:
    """Draw the sum.

    Args:
        own: what the page is about, by name; all lines of the tenants in scope.
    """
    currency, rows = scope.currency, list(own)
    total = sum((amount for _, amount in rows), ZERO)
    if scope.tenant is not None:
        name = scope.tenant_name(scope.tenant)
        tables.sums(["The bill", currency], _written(rows, currency), total=(name, words.amount(total, currency)))
        rows = [(name, total), ("Other tenants", elsewhere(scope))]
    if not scope.whole_fleet:
        return
    found = places(scope, scope.span)
    rows += [(f"Unbilled: {p.label[0].lower()}{p.label[1:]}", p.unbilled) for p in found if p.unbilled]
    tables.sums(
        ["To the fleet's cost", currency],
        _written(rows, currency),
        total=("Fleet cost", words.amount(sum((p.cost for p in found), ZERO), currency)),
        caption="These add up however the bills are split.",
    )


def _written(rows: Iterable[tuple[str, Decimal]], currency: str) -> list[tuple[str, str]]:
    return [(name, words.amount(amount, currency)) for name, amount in rows]
