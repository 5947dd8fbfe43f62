"""A month's days add up to its report, and each has what was used, reserved or left idle on it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from pipelines.config import Config
from pipelines.operations import report
from pipelines.published_days import LINES, lines_of
from pipelines.published_tables import tenant_tables
from tests.pipelines.test_published_tables import config, tables  # noqa: F401  the ledger that they are about

Tables = dict[str, pl.DataFrame]
MONTHS = ("2026-10", "2026-11")


def sums(rows: pl.DataFrame, *keys: str, of: str = "amount") -> dict[Any, Decimal]:
    found: dict[Any, Decimal] = {}
    for *key, amount in rows.select(*keys, of).iter_rows():
        if amount is not None:
            found[tuple(key)] = found.get(tuple(key), Decimal(0)) + amount
    return found


@pytest.mark.parametrize("month", MONTHS)
def test_days_add_up_to_each_line(tables: Tables, config: Config, month: str) -> None:  # noqa: F811
    rows = tables["line_day"].filter(pl.col("period") == month)
    by_line = sums(rows, "tenant", "line")
    for tenant in report(config, period=month).tenants:
        for line, amount in lines_of(tenant, config.currency).items():
            assert by_line.get((tenant.tenant, line), Decimal(0)) == amount, line
        assert sum(lines_of(tenant, config.currency).values()) == Decimal(tenant.charges.total)
    assert set(rows["line"]) <= set(LINES)


@pytest.mark.parametrize("month", MONTHS)
def test_days_add_up_to_hours_and_waste(tables: Tables, config: Config, month: str) -> None:  # noqa: F811
    rows = tables["held_day"].filter(pl.col("period") == month)
    for tenant in report(config, period=month).tenants:
        own = rows.filter(pl.col("tenant") == tenant.tenant)
        assert own["allocated_gpu_hours"].sum() == pytest.approx(tenant.gpu_hours.allocated)
        assert own["waste"].null_count() == own.height  # nothing was observed here
        assert tenant.waste is None


def test_a_day_has_what_fell_on_it(tables: Tables) -> None:  # noqa: F811
    rows = tables["line_day"].filter(pl.col("period") == "2026-11")
    vision = {
        (str(day), line): amount for (day, line), amount in sums(rows.filter(tenant="vision"), "day", "line").items()
    }
    # 25 local hours of a reserved GPU on the day on which the clock is set back, 2.50 each; then 24 at 2.00.
    assert vision["2026-11-01", "reserved"] == Decimal("62.5")
    assert vision["2026-11-02", "reserved"] == Decimal(14)
    assert vision["2026-11-02", "unused"] == Decimal(34)
    assert ("2026-11-01", "unused") not in vision
    overheads = [amount for (_, line), amount in vision.items() if line == "overhead"]
    assert len(overheads) == 30


def test_a_tenant_s_days_are_in_its_own_file(tables: Tables) -> None:  # noqa: F811
    own = tenant_tables("language", tables)
    for name in ("line_day", "held_day"):
        assert set(own[name]["tenant"]) == {"language"}
        assert own[name].height == tables[name].filter(tenant="language").height
