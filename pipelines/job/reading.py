"""A job's report from what is published, as reports bill it, and from the lake where samples are still there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Final

import duckdb
import polars as pl

from exporter.errors import LedgerError, UsageError
from pipelines import fleet_state, store
from pipelines.analysis.causes import BY_ID
from pipelines.config import Config
from pipelines.instants import HOUR_MS, from_ms
from pipelines.job.report import JobCause, JobGpu, JobReport
from pipelines.job.samples import Device, Seen, seen, spread, step_of
from pipelines.ledger import LAKE_NAME
from pipelines.money import round_money
from pipelines.observations import PPB, RATIOS
from pipelines.publish import FOLDER, current
from pipelines.training import progress_of

_SLACK_MS: Final = 10 * 60_000  # devices of one job are sampled last at different times
_FRESH_MS: Final = 60 * 60_000  # what ended longer ago says nothing of now
_JOULES: Final = 3_600_000
_NEAR: Final = 3
_UNOBSERVED: Final = "Not observed"

_LEASES: Final = """
-- grain: lease of one workload
SELECT * FROM lease WHERE cluster = $cluster AND workload = $workload ORDER BY node, device, instance, "start"
"""
_SUMS: Final = """
-- grain: lease; what it came to over all months and tenants
SELECT p.* FROM lease_period AS p JOIN lease AS l ON l.id = p.lease
WHERE l.cluster = $cluster AND l.workload = $workload
ORDER BY p.lease, p.period, p.tenant
"""
_HOURS: Final = """
-- grain: usage row of one workload
SELECT u.device, u.instance, u."start", u."end", u.busy_observed_ms, u.busy_ppb_ms
FROM usage AS u JOIN lease AS l ON l.id = u.lease
WHERE u.state = 'allocated' AND l.cluster = $cluster AND l.workload = $workload
ORDER BY u."start"
"""
_MONEY: Final = """
-- grain: month × tenant
SELECT period, tenant, cost FROM workload_period WHERE workload IN ($workload, $named)
"""
_CAUSES: Final = """
-- grain: month × tenant × cause
SELECT period, tenant, cause, gpu_hours, waste, confidence, evidence, remedy
FROM bottleneck WHERE workload IN ($workload, $named)
"""


def job_report(config: Config, job: str) -> JobReport:
    """Return the report of a job: Slurm's job id, namespace/pod, or the name in an allocations file.

    A name that two clusters use is written ``cluster:name``.

    Raises:
        UsageError: there is no such job; the message names near ones.
        LedgerError: nothing is published yet, or by another release.
    """
    publication = current(config.ledger)
    if publication is None:
        raise LedgerError(f"{config.ledger}: nothing is published yet; run `gpuledger run --once`")
    path = config.ledger / FOLDER / publication.fleet
    with store.opened(path, read_only=True) as connection:
        try:
            cluster, workload = _which(connection, job)
            report = _read(connection, cluster, workload, publication.as_of)
        except (duckdb.CatalogException, duckdb.BinderException):
            raise LedgerError(
                f"{path.name} was published by another release; run `gpuledger run --once` to publish again"
            ) from None
    return _with_samples(report, config)


def _which(connection: duckdb.DuckDBPyConnection, job: str) -> tuple[str, str]:
    """Return cluster and workload of what a user calls a job."""
    rows: list[tuple[str, str]] = connection.execute(
        "SELECT DISTINCT cluster, workload FROM lease ORDER BY cluster, workload"
    ).fetchall()
    plainly = [(c, w) for c, w in rows if job in (w, f"{c}:{w}")]
    if len(plainly) == 1:
        return plainly[0]
    if plainly:
        names = " or ".join(f"{c}:{w}" for c, w in plainly)
        raise UsageError(f"job {_shown(job)}: two clusters have one; write {names}")
    names_known = sorted({w for _, w in rows})
    inside = [w for w in names_known if w.rpartition("/")[2] == job or w.startswith(f"{job}_")]
    near = inside[:_NEAR] or difflib.get_close_matches(job, names_known, n=_NEAR, cutoff=0.7)
    mend = f"did you mean {', '.join(_shown(n) for n in near)}?" if near else "see `gpuledger report` for what there is"
    raise UsageError(f"job {_shown(job)}: the ledger knows no such job; {mend}")


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _ask(connection: duckdb.DuckDBPyConnection, query: str, **parameters: str) -> pl.DataFrame:
    answer: pl.DataFrame = connection.sql(query, params=parameters).pl()
    return answer


def _read(connection: duckdb.DuckDBPyConnection, cluster: str, workload: str, as_of: datetime) -> JobReport:
    which = {"cluster": cluster, "workload": workload}
    leases = _ask(connection, _LEASES, **which)
    sums = _ask(connection, _SUMS, **which)
    hours = _ask(connection, _HOURS, **which)
    named = {"workload": workload, "named": f"{cluster}:{workload}"}
    # A plain name of a month in which this cluster had no such job is another's.
    own = sums.select("period", "tenant").unique()
    money = _ask(connection, _MONEY, **named).join(own, on=["period", "tenant"], how="semi")
    causes = _ask(connection, _CAUSES, **named).join(own, on=["period", "tenant"], how="semi")
    (currency,) = connection.execute("SELECT currency FROM setting").fetchall()[0]
    (until,) = connection.execute(
        'SELECT max("end") FROM usage WHERE cluster = $cluster', {"cluster": cluster}
    ).fetchall()[0]
    start, end = (int(leases.select(e).item()) for e in (pl.col("start").min(), pl.col("end").max()))
    gpu_hours, known = _number(sums, "gpu_hours") or 0.0, _number(sums, "busy_observed_gpu_hours")
    training = progress_of(fleet_state.read(connection)["training"], cluster, workload)
    cost = _amount(money["cost"], currency)
    first = leases.row(0, named=True)
    step = step_of(start, end)
    return JobReport(
        workload=workload,
        cluster=cluster,
        kind=first["kind"],
        user=first["user"] or first["slurm_user"],
        tenants=tuple(sums["tenant"].drop_nulls().unique(maintain_order=True)),
        account=first["slurm_account"],
        partition=first["slurm_partition"],
        qos=first["slurm_qos"],
        nodes=tuple(leases["node"].drop_nulls().unique().sort()),
        state=_state(end, until, _ms(as_of)),
        start=from_ms(start),
        end=from_ms(end),
        as_of=as_of,
        currency=currency,
        gpu_hours=round(gpu_hours, 6),
        utilization=_ratio(_number(sums, "busy_gpu_hours"), known),
        coverage=_ratio(known, gpu_hours),
        energy_kwh=_scaled(_number(sums, "energy_joules"), _JOULES),
        cost=cost,
        waste=_amount(causes["waste"], currency),
        causes=_causes(causes, currency),
        gpus=_gpus(leases, sums, _hourly(hours, start, step)),
        step_s=step / 1000,
        training=training,
        costs=training.costs(cost) if training is not None and cost is not None else {},
        unguessed=not leases["guessed"].any(),
    )


def _state(end: int, until: int | None, as_of: int) -> str:
    """Return whether a workload held its devices at the end of what its cluster tells, where that end is now."""
    if until is None or end < until - _SLACK_MS:
        return "ended"
    return "running" if as_of <= until + _FRESH_MS else "last_seen_running"


def _gpus(
    leases: pl.DataFrame, sums: pl.DataFrame, lines: Mapping[Device, tuple[float | None, ...]]
) -> tuple[JobGpu, ...]:
    found = []
    of_lease = sums.join(leases.select("device", "instance", lease="id"), on="lease")
    for (device, instance), held in leases.group_by("device", "instance", maintain_order=True):
        mine = of_lease.filter(pl.col("device").eq_missing(device) & pl.col("instance").eq_missing(instance))
        first = held.row(0, named=True)
        hours = _number(mine, "gpu_hours") or 0.0
        start, end = (int(held.select(e).item()) for e in (pl.col("start").min(), pl.col("end").max()))
        means = {
            name: _ratio(_number(mine, f"{name}_gpu_hours"), _number(mine, f"{name}_observed_gpu_hours"))
            for name in RATIOS
        }
        seen_hours = _number(mine, "busy_observed_gpu_hours") or 0.0
        memory = _number(mine, "memory_byte_hours")
        share = hours / ((end - start) / HOUR_MS) if end > start else 0.0
        found.append(
            JobGpu(
                first["node"], device, instance, first["model"], from_ms(start), from_ms(end), round(hours, 6),
                round(share, 4), means["busy"], means["sm_active_ratio"], means["tensor_active_ratio"],
                means["dram_active_ratio"],
                _ratio(seen_hours, hours),
                memory * share / seen_hours if memory and seen_hours else None, None, None,
                _scaled(_number(mine, "energy_joules"), _JOULES),
                lines.get((device, instance), spread({})),
            )
        )  # fmt: skip
    return tuple(found)


def _hourly(hours: pl.DataFrame, start: int, step: int) -> dict[Device, tuple[float | None, ...]]:
    """Return time lines as fine as usage is: each column shows the row that it begins in."""
    lines: dict[Device, dict[int, float]] = {}
    for row in hours.filter(pl.col("busy_observed_ms") > 0).iter_rows(named=True):
        line = lines.setdefault((row["device"], row["instance"]), {})
        busy = row["busy_ppb_ms"] / PPB / row["busy_observed_ms"]
        for column in range((row["start"] - start) // step, -(-(row["end"] - start) // step)):
            line.setdefault(column, busy)
    return {device: spread(line) for device, line in lines.items()}


def _with_samples(report: JobReport, config: Config) -> JobReport:
    """Add what the lake still shows; a guessed device's samples say nothing about the job."""
    if not report.unguessed:
        return report
    holds = pl.DataFrame(
        [(report.cluster, g.device, g.instance, _ms(g.start), _ms(g.end)) for g in report.gpus],
        schema={"cluster": pl.String, "device": pl.String, "instance": pl.String, "start": pl.Int64, "end": pl.Int64},
        orient="row",
    )
    found: Seen = seen(config.ledger / LAKE_NAME, holds, _ms(report.start), _ms(report.end))
    gpus = []
    for gpu in report.gpus:
        key = (gpu.device, gpu.instance)
        peak, total = found.peaks.get(key, (None, None))
        gpus.append(replace(gpu, line=found.lines.get(key, gpu.line), memory_peak=peak, memory_total=total))
    return replace(report, gpus=tuple(gpus))


def _ms(t: datetime) -> int:
    return round(t.timestamp() * 1000)


def _causes(rows: pl.DataFrame, currency: str) -> tuple[JobCause, ...]:
    """Join the months of each cause; what decided is of the month in which it took most."""
    whole = _number(rows, "gpu_hours")
    found = []
    for (cause,), of in rows.sort("gpu_hours", descending=True).group_by("cause", maintain_order=True):
        first = of.row(0, named=True)
        hours = _number(of, "gpu_hours") or 0.0
        title = BY_ID[str(cause)].title if cause in BY_ID else _UNOBSERVED
        evidence = tuple(json.loads(first["evidence"] or "[]"))
        share = round(hours / whole, 6) if whole else 0.0
        found.append(
            JobCause(
                str(cause),
                title,
                share,
                round(hours, 6),
                _amount(of["waste"], currency),
                first["confidence"],
                evidence,
                first["remedy"],
            )
        )
    return tuple(sorted(found, key=lambda c: (c.title == _UNOBSERVED, -c.gpu_hours, c.cause)))


def _amount(amounts: pl.Series, currency: str) -> Decimal | None:
    """Return a sum of lines in the currency's minor unit; tables hold four digits for all currencies."""
    known: list[Decimal] = amounts.drop_nulls().to_list()
    return round_money(sum(known, Decimal(0)), currency) if known else None


def _number(rows: pl.DataFrame, column: str) -> float | None:
    known = rows[column].drop_nulls()
    return float(known.sum()) if len(known) else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return round(part / whole, 6) if part is not None and whole else None


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else round(value / unit, 6)
