"""Every cent of a tenant's waste is in exactly one cause."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.analysis.bottlenecks import Bottleneck, bottlenecks
from pipelines.analysis.causes import UNKNOWN, UNOBSERVED
from pipelines.analysis.tables import IDLE, WINDOW, Analysis
from pipelines.config import Config, load
from pipelines.instants import HOUR_MS
from pipelines.metering import LEASE, OUTAGE, Metered
from pipelines.money import round_money
from pipelines.observations import PPB
from pipelines.rated import Rated
from pipelines.rating import rate
from pipelines.rollup import USAGE

CONFIG = """\
currency: USD
timezone: UTC
tenants:
  - {id: astro, match: [{namespace: "astro*"}]}
  - {id: bio, match: [{namespace: "bio*"}]}
rates:
  - {model: "*", to: 1970-01-01T03:00:00Z, on_demand: "3.337"}
  - {model: "*", from: 1970-01-01T03:00:00Z, on_demand: "1.119"}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    path: Path = tmp_path_factory.mktemp("losses") / "gpuledger.yaml"
    path.write_text(CONFIG)
    return load(path)


def lease(number: int, namespace: str, workload: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(LEASE)
    row |= {"id": f"l{number}", "cluster": "c", "kind": "pod", "workload": f"{namespace}/{workload}"}
    row |= {"namespace": namespace, "pod": workload, "device": f"GPU-{number}", "model": "NVIDIA H100 80GB HBM3"}
    return row | {"start": 0, "end": 6 * HOUR_MS, "whole_start": 0, "guessed": False}


def hour(number: int, start: int, *, seen: float, busy: float, weight: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(USAGE)
    observed = round(seen * HOUR_MS)
    row |= {"cluster": "c", "device": f"GPU-{number}", "model": "NVIDIA H100 80GB HBM3", "state": "allocated"}
    row |= {"lease": f"l{number}", "start": start * HOUR_MS, "end": (start + 1) * HOUR_MS}
    row |= {"weight_num": weight[0], "weight_den": weight[1], "memory_byte_ms": 0.0}
    row |= {name: 0 for name in USAGE if name.endswith("_ms") and name != "memory_byte_ms"}
    return row | {"busy_observed_ms": observed, "busy_ppb_ms": observed * round(busy * PPB)}


def window(workload: str, start: int, cause: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(WINDOW)
    row |= {"cluster": "c", "workload": workload, "hour": start * HOUR_MS, "cause": cause, "confidence": 0.8}
    return row | {"observed_ms": HOUR_MS, "idle_ms": 0, "evidence": "[]"}


def idle(number: int, start: int, time: float, loss: float) -> dict[str, Any]:
    parts = {"time_ppb": round(time * PPB), "loss_ppb": round(loss * PPB)}
    return {"lease": f"l{number}", "device": f"GPU-{number}", "instance": None, "hour": start * HOUR_MS, **parts}


def rated(
    config: Config, leases: list[Any], hours: list[Any], windows: list[Any], idles: list[Any]
) -> tuple[Rated, list[Bottleneck]]:
    analysis = Analysis(pl.DataFrame(windows, schema=WINDOW), pl.DataFrame(idles, schema=IDLE))
    metered = Metered(
        leases=pl.DataFrame(leases, schema=LEASE),
        usage=pl.DataFrame(hours, schema=USAGE),
        outages=pl.DataFrame(schema=OUTAGE),
        findings=[],
        span=(0, 6 * HOUR_MS),
        analysis=analysis,
    )
    period = (0, 6 * HOUR_MS)
    found = rate(metered, config, period)
    return found, bottlenecks(found, analysis, period, "USD")


def test_an_hour_bears_what_it_lost_under_its_cause(config: Config) -> None:
    _, found = rated(
        config,
        [lease(1, "astro", "train")],
        [hour(1, 0, seen=1, busy=0.5), hour(1, 1, seen=1, busy=0.9)],
        [window("astro/train", 0, "input"), window("astro/train", 1, "compute")],
        [],
    )
    # 1 h × 0.5 and 1 h × 0.1 at 3.337 are 1.6685 and 0.3337, together 2.0022.
    assert {b.cause: b.waste for b in found} == {"input": Decimal("1.67"), "compute": Decimal("0.33")}
    assert {b.cause: b.share_of_time for b in found} == {"input": 0.5, "compute": 0.5}


def test_idle_episodes_bear_their_part_and_the_rest_of_the_hour_its_cause(config: Config) -> None:
    _, found = rated(
        config,
        [lease(1, "astro", "train")],
        [hour(1, 0, seen=1, busy=0.5)],
        [window("astro/train", 0, "compute")],
        [idle(1, 0, time=0.4, loss=0.8)],
    )
    assert {b.cause: b.waste for b in found} == {"idle": Decimal("1.34"), "compute": Decimal("0.33")}
    assert {b.cause: b.share_of_time for b in found} == {"idle": 0.4, "compute": 0.6}
    assert [b.cause for b in found if b.main] == ["compute"]


def test_what_was_not_sampled_bears_the_rest_at_the_leases_mean(config: Config) -> None:
    _, found = rated(
        config,
        [lease(1, "astro", "train")],
        [hour(1, 0, seen=0.5, busy=0.6), hour(1, 1, seen=0, busy=0)],
        [window("astro/train", 0, "input")],
        [],
    )
    # 2 h × 0.4 × 3.337 = 2.6696; a quarter of the time was observed.
    assert {b.cause: b.waste for b in found} == {"input": Decimal("0.67"), UNOBSERVED: Decimal("2.00")}
    assert [b.cause for b in found if b.main] == ["input"]


def test_a_workload_that_was_never_observed_has_no_cause_and_no_waste(config: Config) -> None:
    made, found = rated(
        config,
        [lease(1, "astro", "train"), lease(2, "astro", "seen")],
        [hour(1, 0, seen=0, busy=0), hour(2, 0, seen=1, busy=0.2)],
        [window("astro/seen", 0, "input")],
        [],
    )
    mine = [b for b in found if b.workload == "astro/train"]
    assert [(b.cause, b.main, b.waste) for b in mine] == [(UNOBSERVED, False, None)]
    assert made.tenants["astro"].held.observed_leases == 1


CAUSES = st.sampled_from(["compute", "input", "communication", UNKNOWN])
SHARES = st.floats(0, 1).map(lambda x: round(x, 3))
HOURS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 5), SHARES, SHARES, st.sampled_from([(1, 1), (1, 7), (3, 7)])),
    min_size=1,
    max_size=16,
    unique_by=lambda row: row[:2],
)


@settings(max_examples=40, deadline=None)
@given(
    hours=HOURS,
    causes=st.lists(CAUSES, min_size=24, max_size=24),
    idles=st.lists(st.tuples(SHARES, SHARES), min_size=24, max_size=24),
    analysed=st.integers(0, 24),
)
def test_causes_add_up_to_the_waste_of_every_tenant_and_workload(
    config: Config, hours: list[Any], causes: list[str], idles: list[Any], analysed: int
) -> None:
    names = {1: ("astro", "a"), 2: ("astro", "b"), 3: ("bio", "a"), 4: ("astro", "b")}
    leases = [lease(n, *names[n]) for n in sorted({row[0] for row in hours})]
    works = sorted({f"{ns}/{w}" for ns, w in names.values()})
    windows = [window(w, h, causes[6 * (i % 4) + h]) for i, w in enumerate(works) for h in range(6)][:analysed]
    rows = [hour(n, h, seen=seen, busy=busy, weight=weight) for n, h, seen, busy, weight in hours]
    parts = [idle(n, h, *idles[(6 * n + h) % 24]) for n, h, *_ in hours]
    made, found = rated(config, leases, rows, windows, parts)
    for tenant, use in made.tenants.items():
        exact = [c for w in use.workloads.values() for c in w.causes.values()]
        if analysed:
            assert sum((c.gpu_ms for c in exact), Fraction(0)) == use.held.allocated
            assert sum((c.waste for c in exact), Fraction(0)) == use.held.waste
            for w in use.workloads.values():
                assert sum((c.waste for c in w.causes.values()), Fraction(0)) == w.held.waste
        told = [b.waste for b in found if b.tenant == tenant and b.waste is not None]
        if told:
            assert sum(told) == round_money(use.held.waste, "USD")
