"""A cost pool shared by billing-hours: those of jobs without GPUs too, nobody's part unbilled, every sum kept."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.book.closing import close
from pipelines.book.compose import make_statement
from pipelines.book.explaining import explain
from pipelines.book.verifying import verify
from pipelines.config import Config, load
from pipelines.operations import published_period, report, run_once
from tests.pipelines.test_billing_hours import CONFIG, JOBS, TREE

# Each job's billing-hours: vision 128 × 1 h, sound 9 × 2 h, nobody's 54 × 1 h: 200 in all.
ROUND = JOBS.replace("12:00:03|3|n1|billing=13", "13:00:00|3600|n1|billing=54")
# 10.00 for each of October's 744 hours.
POOL = 'overheads: [{name: storage, monthly: "7440.00", split: slurm_billing}]\n'
LATE = (
    "12|12|vision|u1|gpu|normal|COMPLETED|2026-10-07T12:00:00|2026-10-07T13:00:00|3600|n1|billing=32,cpu=4,gres/gpu=1\n"
)


def site(folder: Path, *, jobs: str = ROUND, billing: str = ", billing: recorded", pool: str = POOL) -> Config:
    (folder / "jobs.txt").write_text(jobs)
    (folder / "state.txt").write_text(TREE)
    (folder / "gpuledger.yaml").write_text(CONFIG.format(billing=billing, to="15:00:00") + pool)
    config = load(folder / "gpuledger.yaml")
    run_once(config)
    return config


def test_tenants_share_a_pool_by_billing_hours_and_nobodys_part_stays_unbilled(tmp_path: Path) -> None:
    found = report(site(tmp_path))
    # Of 30.00 in three hours: 128/200, 18/200 (a tenant that holds no GPU), and 54/200 that is nobody's.
    assert {t.tenant: t.charges.overhead for t in found.tenants} == {"vision": "19.20", "sound": "2.70"}
    without = report(site(tmp_path, pool=""))
    assert Decimal(found.fleet.cost) == Decimal(without.fleet.cost) + 30
    assert Decimal(found.fleet.unbilled) == Decimal(without.fleet.unbilled) + Decimal("8.10")
    assert Decimal(found.fleet.billed) + Decimal(found.fleet.unbilled) == Decimal(found.fleet.cost)
    assert [t.charges.usage for t in found.tenants if t.tenant == "vision"] == ["4.00"]  # no price per hour moved


def test_parts_add_up_to_the_cent(tmp_path: Path) -> None:
    found = report(site(tmp_path, jobs=JOBS))
    # 30.00 by 128 : 18 : 39/3600 is 26.2994, 3.6984 and 0.0022: the two cents left go to the largest remainders.
    assert {t.tenant: t.charges.overhead for t in found.tenants} == {"vision": "26.30", "sound": "3.70"}


@pytest.mark.parametrize("split", ["slurm_billing", "energy"])
def test_what_nobody_has_any_of_leaves_the_pool_unbilled(tmp_path: Path, split: str) -> None:
    found = report(site(tmp_path, billing="", pool=POOL.replace("slurm_billing", split)))
    assert {t.tenant: t.charges.overhead for t in found.tenants} == {"vision": "0.00"}


def test_a_line_is_walked_to_the_billing_hours_behind_it(tmp_path: Path) -> None:
    config = site(tmp_path)
    reckoned = published_period(config).reckoned
    made = make_statement(reckoned.rated, reckoned.report, config, "sound", label="2026-10")
    (line,) = [line for line in made.lines if line.kind == "overhead"]
    assert (line.amount, [(part.description, part.amount) for part in line.parts]) == ("2.70", [("storage", "2.70")])
    # The whole month's pool is 7440.00, 18/200 of it 669.60.
    (line,) = [n for n in explain(config, "sound/2026-10", 1).steps if n.startswith("storage")]
    assert line.endswith("this tenant's part is USD 669.60, by 18.000000 of 200.000000 billing-hours")


def test_a_closed_month_keeps_its_billing_hours(tmp_path: Path) -> None:
    config = site(tmp_path)
    close(config, "2026-10", now=datetime(2026, 11, 20, tzinfo=UTC), by="a test", force=True, reason="tried")
    assert verify(config).problems == []
    # A GPU job that comes late costs 1.00, and moves the shares of 7440.00: 128/200 is now 160/232, 18/200 18/232.
    (tmp_path / "jobs.txt").write_text(ROUND + LATE)
    run_once(config)
    booked = {t.tenant: t.charges.adjustment for t in report(config, period="2026-11").tenants}
    # 5,131.034… and 577.241…, the cent left to the largest remainder: 5,131.04 - 4,761.60 + 1.00 and 577.24 - 669.60.
    assert booked == {"vision": "370.44", "sound": "-92.36"}
