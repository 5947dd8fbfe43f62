"""Faults that users of such systems reported, of who holds what and of windows, each with the value that is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.operations import replay
from pipelines.report import Report

TEN = datetime(2026, 10, 5, 10, tzinfo=UTC)
Replay = Callable[..., Report]


def scrapes(minutes: Iterable[float], value: float, metric: str = "DCGM_FI_DEV_GPU_UTIL", **labels: str) -> str:
    """Lines of dcgm-exporter, at minutes after ten."""
    told = {"UUID": "GPU-a", "gpu": "0", "Hostname": "n1", "modelName": "NVIDIA H100"} | labels
    text = ",".join(f'{name}="{label}"' for name, label in told.items())
    times = (round((TEN + timedelta(minutes=m)).timestamp() * 1000) for m in minutes)
    return "".join(f"{metric}{{{text}}} {value} {t}\n" for t in times)


def pod(name: str, **more: str) -> dict[str, str]:
    return {"exported_namespace": name, "exported_pod": "p", **more}


@pytest.fixture
def told(tmp_path: Path) -> Replay:
    """Replay files by name, each of which is a source of the kind that its name begins with."""

    def run(files: dict[str, str], *, begin: float = 0, end: float = 60, **config: Any) -> Report:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        content = {
            "currency": "USD",
            "sources": [{name.partition(".")[0]: name, "cluster": "c"} for name in files],
            "tenants": [{"id": name, "match": [{"namespace": name}, {"slurm_account": name}]} for name in "abcd"],
            "rates": [{"model": "*", "on_demand": "1.00"}],
            **config,
        }
        (tmp_path / "gpuledger.yaml").write_text(json.dumps(content))
        bounds = (TEN + timedelta(minutes=m) for m in (begin, end))
        return replay(tmp_path, start=next(bounds), end=next(bounds))

    return run


def held(report: Report) -> dict[str, float]:
    return {t.tenant: t.gpu_hours.allocated for t in report.tenants if t.gpu_hours.allocated}


HOUR = range(61)
SACCT = "JobID|JobIDRaw|Account|State|Start|End|ElapsedRaw|NodeList|AllocTRES\n"


def job(number: int, account: str, begin: int, end: int) -> str:
    start, stop = (f"{TEN + timedelta(minutes=m):%Y-%m-%dT%H:%M:%S}" for m in (begin, end))
    return f"{number}|{number}|{account}|COMPLETED|{start}|{stop}|{(end - begin) * 60}|n1|gres/gpu=1\n"


def test_power_that_every_sharing_pod_repeats_is_drawn_once(told: Replay) -> None:
    lines = "".join(
        scrapes(HOUR, value, metric, **pod(name, vgpu=str(number)))
        for number, name in enumerate("abcd")
        for metric, value in (("DCGM_FI_DEV_POWER_USAGE", 60), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.714))
    )
    report = told({"metrics.prom": lines})
    assert report.fleet.energy_kwh == pytest.approx(0.06)
    assert [t.energy_kwh for t in report.tenants] == [pytest.approx(0.015)] * 4
    assert [t.utilization for t in report.tenants] == [pytest.approx(0.714)] * 4
    assert held(report) == dict.fromkeys("abcd", 0.25)


def owned(share: float, **owner: str) -> str:
    """Lines of our exporter: who holds a part of the card."""
    text = ",".join(
        f'{name}="{label}"' for name, label in ({"uuid": "GPU-a", "gpu": "0", "node": "n1"} | owner).items()
    )
    times = (round((TEN + timedelta(minutes=m)).timestamp() * 1000) for m in HOUR)
    return "".join(f"gpuledger_owner_share_ratio{{{text}}} {share} {t}\n" for t in times)


def test_a_card_whose_series_name_one_of_three_sharing_pods_is_held_by_all(told: Replay) -> None:
    named = scrapes(HOUR, 60, **pod("a"))
    assert held(told({"metrics.prom": named})) == {"a": 1.0}  # without the exporter's word nothing else is known
    report = told({"metrics.prom": named + "".join(owned(1 / 3, namespace=name, pod="p") for name in "abc")})
    assert held(report) == pytest.approx(dict.fromkeys("abc", 1 / 3), abs=1e-6)
    assert report.fleet.allocated_gpu_hours == 1


def test_an_instance_whose_owner_cant_be_joined_is_not_its_neighbours(told: Replay) -> None:
    lines = "".join(
        scrapes(HOUR, 0.5, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", GPU_I_ID=instance, GPU_I_PROFILE="3g.40gb")
        for instance in "12"
    ) + owned(1, namespace="a", pod="p", gpu_instance="1", gpu_profile="3g.40gb")
    report = told({"metrics.prom": lines})
    # Each has 4 of 8 slices of memory: one is held, the other idle, and neither is the owner's of the other.
    assert held(report) == {"a": 0.5}
    assert (report.fleet.idle_gpu_hours, report.unattributed_gpu_hours) == (0.5, 0)


def test_a_step_of_a_job_bills_nothing_of_its_own(told: Replay) -> None:
    rows = job(7, "a", 0, 60).replace("gres/gpu=1", "gres/gpu=2")
    steps = rows.replace("7|7|a|", "7.0|7.0||").replace("gres/gpu=2", "gres/gpu=1")
    wider = rows.replace("7|7|a|", "7.1|7.1||").replace("gres/gpu=2", "gres/gpu=3")
    assert held(told({"sacct.txt": SACCT + rows + steps + wider})) == {"a": 2.0}


def test_a_label_that_outlives_its_job_holds_nothing(told: Replay) -> None:
    report = told({"sacct.txt": SACCT + job(7, "a", 0, 30), "metrics.prom": scrapes(HOUR, 50, hpc_job="7")})
    assert held(report) == {"a": 0.5}
    assert report.fleet.idle_gpu_hours == 0.5


def test_a_label_that_outlives_its_job_yields_to_the_next_one(told: Replay) -> None:
    # Minutes after 09:00: job 7 until 10:00, its flag until 12:00, job 8 from 10:05 on.
    lines = scrapes(range(181), 50, hpc_job="7")
    report = told({"sacct.txt": SACCT + job(7, "a", 0, 60) + job(8, "b", 65, 180), "metrics.prom": lines}, end=180)
    assert held(report) == {"a": 1.0, "b": pytest.approx(115 / 60, abs=1e-6)}
    assert report.fleet.allocated_gpu_hours <= report.fleet.capacity_gpu_hours == 3.0


def test_one_node_under_two_names_is_one(told: Replay) -> None:
    lines = "".join(
        scrapes(HOUR, 50, UUID=f"GPU-{number}", gpu=str(number), Hostname=name, **pod("a"))
        for number in range(8)
        for name in ("10.0.0.5:9400", "worker1")
    )
    report = told({"metrics.prom": lines})
    assert (report.fleet.devices, report.fleet.capacity_gpu_hours) == (8, 8.0)
    assert held(report) == {"a": 8.0}


def test_pods_of_one_name_are_told_apart_by_their_uid(told: Replay) -> None:
    first = scrapes(range(20), 50, **pod("a", pod_uid="u1"))
    second = scrapes(range(60, 70), 50, **pod("a", pod_uid="u2"))
    report = told({"metrics.prom": first + scrapes(range(20, 60), 0) + second + scrapes(range(70, 75), 0)}, end=75)
    assert held(report) == {"a": 0.5}


def test_a_window_after_the_last_sample_is_empty_not_negative(told: Replay) -> None:
    report = told({"metrics.prom": scrapes(range(30), 50, **pod("a"))}, begin=40, end=40 + 76 / 60)
    assert held(report) == {}
    assert report.fleet.capacity_gpu_hours == 0
    assert all(w.start < w.end for t in report.tenants for w in t.workloads)


def test_a_quarter_of_an_hour_is_one_however_it_lies(told: Replay) -> None:
    report = told({"metrics.prom": scrapes(range(0, 61, 5), 50, **pod("a"))}, begin=7, end=22)
    assert held(report) == {"a": 0.25}


def test_a_hole_in_the_samples_is_held_and_not_averaged_in(told: Replay) -> None:
    minutes = [m for m in range(60) if not 30 <= m < 45]
    files = {"sacct.txt": SACCT + job(1, "a", 0, 60), "metrics.prom": scrapes(minutes, 80, hpc_job="1")}
    (tenant,) = [t for t in told(files).tenants if t.tenant == "a"]
    assert (tenant.gpu_hours.allocated, tenant.utilization, tenant.coverage) == (1.0, pytest.approx(0.8), 0.75)
