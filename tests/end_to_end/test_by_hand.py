"""Three small sites whose reports were worked out by hand, with the working beside them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from pipelines.operations import replay
from tests.end_to_end.commands import findings
from tests.end_to_end.folders import NOON_MS

REPAIR: Final = """\
currency: USD
window: {from: 2026-10-05T12:00:00Z, to: 2026-10-05T16:00:00Z}
sources:
  - {inventory: cards.csv}
  - {allocations: held.csv}
tenants:
  - {id: vision, match: [{namespace: "vision-*"}]}
  - {id: nlp, match: [{namespace: "nlp"}]}
rates:
  - {model: "*H100*", to: 2026-10-05T14:00:00Z, on_demand: "3.00"}
  - {model: "*H100*", from: 2026-10-05T14:00:00Z, on_demand: "4.00"}
reservations:
  - {id: r1, tenant: vision, model: "*H100*", gpus: 2, rate: "2.00",
     from: 2026-10-05T12:00:00Z, to: 2026-10-05T16:00:00Z}
"""
CARDS: Final = """\
node,device,model,gpus,slots,owner,from,to
n1,GPU-0,H100,,,,,
n1,GPU-1,H100,,,,,
n1,GPU-2,H100,,,,,
n1,GPU-3,H100,,,,,
"""
HELD: Final = """\
start,end,gpus,device,model,tenant,workload,class
2026-10-05T12:00:00Z,2026-10-05T16:00:00Z,1,GPU-0,H100,vision,a-train,
2026-10-05T12:00:00Z,2026-10-05T16:00:00Z,1,GPU-1,H100,vision,a-train,
2026-10-05T12:00:00Z,2026-10-05T13:00:00Z,1,GPU-2,H100,vision,b-eval,
2026-10-05T12:00:00Z,2026-10-05T15:00:00Z,1,GPU-3,H100,nlp,serve,
2026-10-05T13:00:00Z,2026-10-05T13:30:00Z,1,GPU-1,H100,vision,repair,down
"""


def report_of(folder: Path, config: str, **files: str) -> dict[str, Any]:
    (folder / "gpuledger.yaml").write_text(config)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    found: dict[str, Any] = json.loads(replay(folder).to_json())
    return found


def hours(fleet: dict[str, Any]) -> dict[str, float]:
    return {key.removesuffix("_gpu_hours"): value for key, value in fleet.items() if key.endswith("_gpu_hours")}


def charged(report: dict[str, Any], tenant: str) -> dict[str, str]:
    """The tenant's charges that are not nothing."""
    (row,) = [row for row in report["tenants"] if row["tenant"] == tenant]
    return {kind: amount for kind, amount in row["charges"].items() if amount != "0.00"}


def test_a_repair_inside_a_reservation_across_a_change_of_rates(tmp_path: Path) -> None:
    report = report_of(tmp_path, REPAIR, cards__csv=CARDS, held__csv=HELD)
    # 4 cards for 4 h. vision: GPU-0 4 h, GPU-1 4 h less the half hour of its repair, GPU-2 1 h; nlp: 3 h.
    # What nobody held was not seen either: GPU-2 from 13:00, GPU-3 from 15:00.
    assert hours(report["fleet"]) == {
        "capacity": 16.0,
        "allocated": 4 + 3.5 + 1 + 3,
        "idle": 0.0,
        "stranded": 0.0,
        "down": 0.5,
        "unobserved": 3.0 + 1.0,
    }
    # Of three cards two are reserved: a-train's, first by name; b-eval's hour is overflow, at the rate of 12:00,
    # as no overflow rate is given. In the repair one of two reserved GPUs was not to be had: half an hour is
    # credited. 7.5 used + 0 unused + 0.5 credited = 2 x 4.
    (vision,) = [row for row in report["tenants"] if row["tenant"] == "vision"]
    assert vision["gpu_hours"] == {
        "allocated": 8.5,
        "active": None,  # nothing measured it
        "reserved": 7.5,
        "on_demand": 0.0,
        "overflow": 1.0,
        "spot": 0.0,
        "reserved_unused": 0.0,
    }
    # Reservation 2 x 4 h x 2.00, overflow 1 h x 3.00, credit 0.5 h x 2.00.
    assert charged(report, "vision") == {"reservation": "16.00", "usage": "3.00", "credit": "-1.00", "total": "18.00"}
    # 2 h x 3.00 and 1 h x 4.00.
    assert charged(report, "nlp") == {"usage": "10.00", "total": "10.00"}
    # 4 cards x (2 h x 3.00 + 2 h x 4.00) = 56.
    assert {k: report["fleet"][k] for k in ("cost", "billed", "unbilled")} == {
        "cost": "56.00",
        "billed": "28.00",
        "unbilled": "28.00",
    }
    # a-train: 7.5 reserved hours at the reservation's rate; b-eval: its overflow.
    assert {w["workload"]: w["cost"] for w in vision["workloads"]} == {"a-train": "15.00", "b-eval": "3.00"}


MIG: Final = """\
currency: USD
scrape_interval: 60s
sources:
  - {metrics: a.prom, cluster: prod}
tenants:
  - {id: vision, match: [{namespace: "vision-*"}]}
  - {id: nlp, match: [{namespace: "nlp"}]}
rates:
  - {model: "*A100*", on_demand: "2.80"}
energy: {price_per_kwh: "0.30", pue: "1.2", carbon_g_per_kwh: "400", charge: true}
"""


def mig_hour() -> str:
    """One hour of an A100 with a 3g.40gb that vision holds and a 2g.20gb that nlp takes after 20 minutes."""
    card = 'gpu="0",UUID="GPU-a",Hostname="n1",modelName="NVIDIA A100-SXM4-80GB"'
    lines = []
    for minute in range(60):
        large, small = ("0.8" if minute < 30 else "0.4"), ("0.0" if minute < 20 else "0.5")
        nlp = ',namespace="nlp",pod="tune-0"' if minute >= 20 else ""
        for where, active in (
            (f'GPU_I_ID="1",GPU_I_PROFILE="3g.40gb",namespace="vision-x",pod="train-0",{card}', large),
            (f'GPU_I_ID="2",GPU_I_PROFILE="2g.20gb",{card}{nlp}', small),
        ):
            at = NOON_MS + 60_000 * minute
            lines.append(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{where}}} {active} {at}")
            # The board's counter stands on each instance: 60 kJ a minute, 1 kWh an hour.
            lines.append(f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{where}}} {5_000 + 60_000_000 * minute} {at}")
    return "\n".join(lines) + "\n"


def test_two_instances_of_a_card_share_its_energy(tmp_path: Path) -> None:
    report = report_of(tmp_path, MIG, a__prom=mig_hour())
    # 3g.40gb: 3/7 of the compute, 4/8 of the memory: 1/2. 2g.20gb: 2/7 and 2/8: 2/7. The rest, 3/14, is stranded.
    # nlp holds 2/7 for 40 minutes: 4/21; before, that was idle: 2/21.
    assert hours(report["fleet"]) == {
        "capacity": 1.0,
        "allocated": pytest.approx(1 / 2 + 4 / 21, abs=1e-6),
        "idle": pytest.approx(2 / 21, abs=1e-6),
        "stranded": pytest.approx(3 / 14, abs=1e-6),
        "down": 0.0,
        "unobserved": 0.0,
    }
    vision, nlp = (next(row for row in report["tenants"] if row["tenant"] == name) for name in ("vision", "nlp"))
    # Half a card at 80 % for half an hour and at 40 % for the other.
    assert vision["gpu_hours"]["active"] == pytest.approx(0.3)
    assert (vision["utilization"], vision["coverage"]) == (0.6, 1.0)
    assert nlp["gpu_hours"]["active"] == pytest.approx(2 / 21, abs=1e-6)
    # 59 steps of a counter lie between 60 readings. To 12:20 the small instance did nothing and the energy is vision's.
    # To 12:30 it is split as 1/2 x 0.8 to 2/7 x 0.5, which is 14 to 5, and after that as 1/2 x 0.4 to it, 7 to 5.
    step = Fraction(1, 60)
    of_vision = step * (20 + 10 * Fraction(14, 19) + 29 * Fraction(7, 12))
    of_nlp = step * (10 * Fraction(5, 19) + 29 * Fraction(5, 12))
    assert of_vision + of_nlp == 59 * step
    assert report["fleet"]["energy_kwh"] == pytest.approx(59 / 60, abs=1e-6)
    assert vision["energy_kwh"] == pytest.approx(float(of_vision), abs=1e-6)  # 0.738085
    assert nlp["energy_kwh"] == pytest.approx(float(of_nlp), abs=1e-6)  # 0.245249
    assert vision["co2e_kg"] == pytest.approx(0.738085 * 1.2 * 0.4, abs=1e-6)
    # Usage: 0.5 x 2.80 and 4/21 x 2.80 = 0.5333. Energy at 0.36 a kWh: 0.2657 and 0.0883.
    assert charged(report, "vision") == {"usage": "1.40", "energy": "0.27", "total": "1.67"}
    assert charged(report, "nlp") == {"usage": "0.53", "energy": "0.09", "total": "0.62"}
    # Allocated less active at 2.80: 0.2 and 2/21.
    assert (vision["waste"], nlp["waste"]) == ("0.56", "0.27")
    # 2.80 and 59/60 kWh x 0.36 = 0.354.
    assert {k: report["fleet"][k] for k in ("cost", "billed", "unbilled")} == {
        "cost": "3.15",
        "billed": "2.29",
        "unbilled": "0.86",
    }
    assert findings(report) == {}


CLOCK: Final = """\
currency: USD
timezone: America/New_York
window: {from: 2026-11-01T00:00:00, to: 2026-11-01T04:00:00}
sources:
  - {inventory: cards.csv, cluster: hpc}
  - {sacct: jobs.txt, cluster: hpc}
tenants:
  - {id: ana, match: [{slurm_account: a}]}
  - {id: ben, match: [{slurm_account: b}]}
rates:
  - {model: "*", on_demand: "2.00"}
idle: {policy: proportional}
overheads:
  - {name: storage, monthly: "721.00", split: even}
"""
JOBS: Final = """\
JobID|JobIDRaw|Account|User|State|Start|End|ElapsedRaw|NodeList|AllocTRES
1|1|a|u1|COMPLETED|2026-11-01T00:30:00|2026-11-01T01:30:00|7200|n1|gres/gpu=2
2|2|b|u2|COMPLETED|2026-11-01T01:15:00|2026-11-01T01:45:00|1800|n1|gres/gpu=1
"""


def test_the_night_on_which_the_clock_is_set_back(tmp_path: Path) -> None:
    report = report_of(tmp_path, CLOCK, cards__csv=CARDS.replace("H100", "V100"), jobs__txt=JOBS)
    # From 0:00 to 4:00 are five hours: 4 cards, 20 GPU-hours. Job 1 ran two hours, so it ended at the second 1:30:
    # 4 GPU-hours. Job 2 ran half an hour. Slurm speaks for the node from 0:30 to the second 1:30, two hours:
    # 8 - 4.5 are idle, and of the other three nobody knows.
    assert (report["period"]["from"], report["period"]["to"]) == ("2026-11-01T04:00:00Z", "2026-11-01T09:00:00Z")
    assert hours(report["fleet"]) == {
        "capacity": 20.0,
        "allocated": 4.5,
        "idle": 3.5,
        "stranded": 0.0,
        "down": 0.0,
        "unobserved": 12.0,
    }
    # November has 721 hours: 721.00 x 5 / 721 = 5.00, half to each. Idle is 3.5 x 2.00 = 7.00, split 8 to 1:
    # 6.2222 and 0.7778, which in cents is 6.22 and 0.78.
    assert charged(report, "ana") == {"usage": "8.00", "idle": "6.22", "overhead": "2.50", "total": "16.72"}
    assert charged(report, "ben") == {"usage": "1.00", "idle": "0.78", "overhead": "2.50", "total": "4.28"}
    # 20 x 2.00 + 5.00; what is left are the 12 hours that nobody knows of.
    assert {k: report["fleet"][k] for k in ("cost", "billed", "unbilled")} == {
        "cost": "45.00",
        "billed": "21.00",
        "unbilled": "24.00",
    }
