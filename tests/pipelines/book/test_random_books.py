"""What is always true of a book, over random ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.book.closing import close
from pipelines.book.compose import StatementMaker
from pipelines.book.focus.export import checked, rows_of
from pipelines.book.reckoning import Reckoned
from pipelines.book.shelf import ClosedBook
from pipelines.book.verifying import verify
from pipelines.config import Config, load
from pipelines.config.scalars import UTC_ZONE
from pipelines.operations import run_once
from pipelines.periods import parse_period
from pipelines.statement import make_report, within_of
from tests.pipelines.book.conftest import HEAD
from tests.pipelines.book.test_focus import billed
from tests.pipelines.stages import run

START: Final = datetime(2026, 9, 1, tzinfo=UTC)
LATER: Final = datetime(2027, 1, 15, tzinfo=UTC)
TENANTS: Final = ("astro", "bio", "chem")
PERIODS: Final = ("2026-09", "2026-10")

hours = st.integers(0, 24 * 61 * 4).map(lambda quarters: quarters / 4)
prices = st.integers(1, 999).map(lambda cents: f"{cents / 100:.2f}")
rows = st.tuples(
    hours,
    st.integers(1, 400),  # minutes × 7: amounts that don't come out even
    st.integers(1, 4),
    st.sampled_from(TENANTS),
    st.sampled_from(["", "", "spot", "overflow", "down", "repair"]),
)
policies = st.sampled_from(["platform", "proportional", "even", "owner"])
terms = st.fixed_dictionaries(
    {
        "rates": st.tuples(prices, prices, prices).map(
            lambda p: [
                {"model": "*", "to": "2026-09-20", "on_demand": p[0], "reserved": p[1],
                 "tiers": [{"above": "10", "price": p[2]}]},
                {"model": "*", "from": "2026-09-20", "on_demand": p[2], "reserved": p[1], "overflow": p[0],
                 "tiering": "all_units", "tiers": [{"above": "30", "price": p[1]}]},
            ]
        ),
        "idle": st.fixed_dictionaries(
            dict.fromkeys(("policy", "reserved_unused", "stranded", "down", "repair"), policies)
        ),
        "overheads": st.lists(
            st.sampled_from(["even", "proportional", "gpu_hours", "fixed"]), max_size=2, unique=True
        ).map(
            lambda drivers: [
                {"name": d, "monthly": "99.99", "split": d, **({"shares": {"bio": "33.3"}} if d == "fixed" else {})}
                for d in drivers
            ]
        ),
        "sla": st.sampled_from(
            [{}, {"thresholds": [{"below": "99.9"}]}, {"thresholds": [{"below": "99", "percent": "5"}]}]
        ),
        "reservations": st.sampled_from(
            [[], [{"id": "r", "tenant": "astro", "model": "*", "gpus": 2, "from": "2026-09-05", "to": "2026-10-09"}]]
        ),
    }
)  # fmt: skip
folders = count()


def made(folder: Path, allocations: list[Any], configured: dict[str, Any]) -> Config:
    """A ledger of these rows under these terms."""
    config = load(written(folder, allocations, configured) / "gpuledger.yaml")
    run_once(config)
    return config


def written(folder: Path, allocations: list[Any], configured: dict[str, Any]) -> Path:
    """The folder that such a ledger is made from."""
    folder.mkdir(exist_ok=True)
    tenants = [
        {"id": "astro", "discounts": [{"percent": "12.5"}]},
        {"id": "bio", "currency": "EUR"},
        {"id": "chem", "commitment": [{"monthly": "123.45"}]},
    ]
    content = {
        "currency": "USD",
        "sources": [{"allocations": "allocations.csv"}, {"inventory": "inventory.csv"}],
        "tenants": tenants,
        "exchange": [{"currency": "EUR", "rate": "0.9137"}],
        "closing": {"formats": []},
        **configured,
    }
    (folder / "gpuledger.yaml").write_text(yaml.safe_dump(content))
    lines = []
    for n, (at, sevens, gpus, tenant, class_) in enumerate([(0, 10, 1, "chem", ""), *allocations]):
        start = START + timedelta(hours=at)
        end = start + timedelta(minutes=7 * sevens)
        lines.append(f"{start:%Y-%m-%dT%H:%M:%SZ},{end:%Y-%m-%dT%H:%M:%SZ},{gpus},,H100,{tenant},w{n},{class_}\n")
    (folder / "allocations.csv").write_text(HEAD + "".join(lines))
    (folder / "inventory.csv").write_text(
        "node,device,model,gpus,slots,owner,from,to\n"
        "n1,,H100,4,,astro,2026-09-01,2026-11-10\nn2,,H100,4,,,2026-09-01,2026-11-10\n"
    )
    return folder


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("books")


@settings(max_examples=25)
@given(st.lists(rows, min_size=1, max_size=12), terms)
def test_of_any_book_the_sums_hold(shelf: Path, allocations: list[Any], configured: dict[str, Any]) -> None:
    stages = run(written(shelf / str(next(folders)), allocations, configured))
    for period in (parse_period(p, UTC_ZONE) for p in ("2026-09", "2026-10", "2026-09-20")):
        rated = stages.rated(within_of(period))
        found = make_report(rated, stages.config, period, [], LATER)
        fleet = found.fleet
        assert sum(Decimal(t.charges.total) for t in found.tenants) == Decimal(fleet.billed)
        assert Decimal(fleet.billed) + Decimal(fleet.unbilled) == Decimal(fleet.cost)
        maker = StatementMaker(rated, found, stages.config)
        totals = {}
        for tenant in found.tenants:
            owed = maker.of(tenant.tenant, label="x")
            totals[tenant.tenant] = Decimal(owed.total)
            assert sum(Decimal(line.amount) for line in owed.lines) == Decimal(owed.total)
            for line in owed.lines:
                assert not line.parts or sum(Decimal(p.amount) for p in line.parts) == Decimal(line.amount)
            for shares in (owed.classes, owed.models, owed.workloads):
                assert not shares or sum(Decimal(s.cost) for s in shares) == Decimal(owed.held_cost)
        reckoned = Reckoned(stages.config, rated, found, [], [])
        in_focus = billed(checked(rows_of(reckoned, period, "CostAndUsage"), reckoned, period))
        assert in_focus == {t: total for t, total in totals.items() if total or t in in_focus}


@settings(max_examples=2)
@given(st.lists(rows, min_size=3, max_size=12), st.lists(rows, min_size=1, max_size=3), terms)
def test_a_closed_book_is_proved_with_late_data_in_it(
    shelf: Path, first: list[Any], late: list[Any], configured: dict[str, Any]
) -> None:
    folder = shelf / str(next(folders))
    close(made(folder, first, configured), PERIODS[0], now=LATER, by="ada")
    config = made(folder, [*first, *late], configured)
    close(config, PERIODS[1], now=LATER, by="ada")
    assert verify(config).problems == []
    numbers = [s["number"] for book in shelf_of(config) for s in book.manifest["statements"]]
    assert numbers == [f"2026-{n:06d}" for n in range(1, len(numbers) + 1)]


def shelf_of(config: Config) -> list[ClosedBook]:
    from pipelines.book.shelf import FOLDER, shelf

    return shelf(config.ledger / FOLDER)
