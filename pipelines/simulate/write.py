"""The replay directory of a scenario: configuration, samples, accounting, allocations, inventory, truth."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import yaml
from polars.io.plugins import register_io_source

from pipelines.simulate.labels import CLUSTER
from pipelines.simulate.scenario import Job, Scenario, local
from pipelines.simulate.signals import SCHEMA, Signals
from pipelines.simulate.story import build_scenario
from pipelines.simulate.terms import TIMEZONE
from pipelines.simulate.truth import Evidence, truth

DEMO_START: Final = date(2026, 11, 1)
"""A month of 721 hours in New York, that ends five hours into December in UTC, with a long weekend."""

Progress = Callable[[int, int], None]

SACCT_FIELDS: Final = (
    "JobID", "JobIDRaw", "JobName", "Account", "User", "Partition", "QOS", "State", "Submit", "Start", "End",
    "ElapsedRaw", "NNodes", "NodeList", "AllocTRES",
)  # fmt: skip


def simulate(
    out: Path,
    *,
    gpus: int = 64,
    days: int = 30,
    seed: int = 1,
    start: date = DEMO_START,
    interval_s: int = 60,
    progress: Progress | None = None,
) -> None:
    """Write a simulated fleet as a replay directory with its ground truth.

    The same arguments write the same bytes. Files of an earlier run in ``out`` are replaced.

    Args:
        out: the directory; made where it doesn't exist.
        gpus: cards of the fleet.
        days: local days (America/New_York) from ``start``; the first whole month in them is billed, else all.
        interval_s: seconds between samples.
        progress: called with the days written and the days in all.

    Raises:
        ValueError: an argument that makes no fleet.
        OSError: the directory can't be written.
    """
    scenario = build_scenario(gpus=gpus, days=days, seed=seed, start=start, interval=interval_s)
    out.mkdir(parents=True, exist_ok=True)
    evidence = Evidence()
    _write_samples(out / "samples.parquet", Signals(scenario, evidence), progress)
    _write_sacct(out / "sacct.txt", scenario)
    _write_allocations(out / "allocations.csv", scenario)
    _write_inventory(out / "inventory.csv", scenario)
    (out / "gpuledger.yaml").write_text(_configuration(scenario), encoding="utf-8")
    told = json.dumps(truth(scenario, evidence), indent=1, ensure_ascii=False)
    (out / "truth.json").write_text(told + "\n", encoding="utf-8")


def _write_samples(path: Path, signals: Signals, progress: Progress | None) -> None:
    """One Parquet file, written as it is made: no more than a day of some boards is held."""

    def tables(
        with_columns: list[str] | None, _predicate: pl.Expr | None, _rows: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for day, parts in enumerate(signals.days()):
            for table in parts:
                yield table if with_columns is None else table.select(with_columns)
            if progress:
                progress(day + 1, signals.day_count)

    lazy = register_io_source(tables, schema=SCHEMA)
    lazy.sink_parquet(path, compression="zstd", compression_level=1, row_group_size=256 * 1024, maintain_order=True)


def _write_sacct(path: Path, scenario: Scenario) -> None:
    """``sacct -P --duplicates``: runs, their batch steps, and jobs that had no GPU."""
    rng = np.random.default_rng([scenario.seed, 20])
    lines = ["|".join(SACCT_FIELDS)]
    for place, job in enumerate(scenario.jobs):
        lines.append("|".join(_accounting(job, scenario)))
        if job.state != "REQUEUED":
            lines.append("|".join(_accounting(job, scenario, step="batch")))
        if place % 9 == 0:
            lines.append("|".join(_accounting(_without_gpus(job, rng), scenario)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _without_gpus(job: Job, rng: np.random.Generator) -> Job:
    return Job(
        id=job.id + 1_000_000,
        name="prepare",
        account=job.account,
        user=job.user,
        partition="cpu",
        qos="normal",
        state="COMPLETED",
        submit=job.submit,
        start=job.start,
        end=job.start + int(rng.integers(1, 20)) * 60,
        nodes=job.nodes[:1],
        gpus=0,
        gres=None,
    )


def _accounting(job: Job, scenario: Scenario, step: str = "") -> list[str]:
    snapshot = scenario.window.last  # when sacct was asked
    running = job.end > snapshot
    names = [scenario.fleet.nodes[node].name for node in job.nodes]
    tres = [f"cpu={16 * max(job.gpus, 1)}", f"mem={128 * max(job.gpus, 1)}G", f"node={len(names)}"]
    if job.gpus:
        tres = [f"billing={job.gpus}", *tres[:1], f"gres/gpu:{job.gres}={job.gpus}", f"gres/gpu={job.gpus}", *tres[1:]]
    job_id = f"{job.id}.{step}" if step else str(job.id)
    return [
        job_id,
        job_id,
        step or job.name,
        job.account,
        "" if step else job.user,
        "" if step else job.partition,
        "" if step else job.qos,
        "RUNNING" if running else job.state,
        _wall(job.submit),
        _wall(job.start),
        "Unknown" if running else _wall(job.end),
        str(min(job.end, snapshot) - job.start),
        str(len(names)),
        _node_list(names),
        ",".join(tres),
    ]


def _wall(time: int) -> str:
    return local(time).strftime("%Y-%m-%dT%H:%M:%S")


def _node_list(names: list[str]) -> str:
    """Slurm's short form: ``h100-[001,003-004]``."""
    if len(names) == 1:
        return names[0]
    stem = names[0].rsplit("-", 1)[0]
    numbers = sorted(int(name.rsplit("-", 1)[1]) for name in names)
    runs: list[list[int]] = [[numbers[0]]]
    for before, number in pairwise(numbers):
        if number == before + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spans = [f"{run[0]:03d}" if len(run) == 1 else f"{run[0]:03d}-{run[-1]:03d}" for run in runs]
    return f"{stem}-[{','.join(spans)}]"


def _write_allocations(path: Path, scenario: Scenario) -> None:
    rows = []
    for number, repair in enumerate(scenario.of_kind("repair"), start=1):
        if repair.device is None:
            continue
        device = scenario.fleet.devices[repair.device]
        span = (_utc(repair.start), _utc(repair.end))
        rows.append([*span, "1", device.uuid, device.card.model, repair.tenant or "", f"repair-{number}", "down"])
    _write_csv(path, "start,end,gpus,device,model,tenant,workload,class", rows)


def _write_inventory(path: Path, scenario: Scenario) -> None:
    rows = []
    for device in scenario.fleet.devices:
        node = scenario.fleet.nodes[device.node]
        joined = _utc(node.joined) if node.joined is not None else ""
        slots = str(device.slots) if device.slots else ""
        rows.append([node.name, device.uuid, device.card.model, "1", slots, "", joined, ""])
    _write_csv(path, "node,device,model,gpus,slots,owner,from,to", rows)


def _write_csv(path: Path, header: str, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def _utc(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _configuration(scenario: Scenario) -> str:
    window, terms = scenario.window, scenario.terms
    rates = []
    for rate in terms.rates:
        dates = {key: local(edge).date().isoformat() for key, edge in (("from", rate.start), ("to", rate.end)) if edge}
        rates.append({"model": rate.pattern, **dates, **rate.prices})
    reservations = []
    for kept in terms.reservations:
        entry: dict[str, Any] = {"id": kept.id, "tenant": kept.tenant, "model": kept.pattern, "gpus": kept.gpus}
        entry |= {"from": _utc(kept.start), "to": _utc(kept.end)}
        reservations.append(entry | ({"rate": kept.rate} if kept.rate else {}))
    settings: dict[str, Any] = {
        "currency": "USD",
        "timezone": TIMEZONE,
        "scrape_interval": f"{window.interval}s",
        "sources": [
            {"samples": "samples.parquet", "cluster": CLUSTER},
            {"sacct": "sacct.txt", "cluster": CLUSTER},
            {"allocations": "allocations.csv"},
            {"inventory": "inventory.csv"},
        ],
        "tenants": terms.tenants,
        "rates": rates,
        "reservations": reservations,
        "spot": terms.spot,
        "idle": {"policy": "proportional"},
        "sharing": {"split": "even"},
        "mig": {"weight": "max"},
        "attribution": {"bridge": "30m", "flicker": "5m"},
        "energy": {"price_per_kwh": "0.12", "pue": "1.3", "carbon_g_per_kwh": "380", "charge": False},
        "overheads": [{"name": "storage", "monthly": terms.overhead_monthly, "split": "even"}],
        "sla": {"credit_downtime": True},
    }
    if window.month:
        settings["period"] = window.month
    else:
        settings["window"] = {"from": _utc(window.start), "to": _utc(window.end)}
    gpus = len(scenario.fleet.devices)
    about = f"# A simulated fleet of {gpus} GPUs (seed {scenario.seed}); truth.json says what is right.\n"
    return about + yaml.dump(settings, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=110)


class _Quoting(yaml.SafeDumper):
    """Quotes text that is a number, and leaves lists in block style."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain_number = text.replace(".", "", 1).isdigit()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if plain_number else None)


_Quoting.add_representer(str, _text)
