"""Source `sacct`: Slurm's accounting as `sacct -P` writes it → records and accounting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

import polars as pl

from exporter import hostlist
from exporter.errors import SourceError
from pipelines.facts import joined, rows_of
from pipelines.slurm_billing import BillingRule
from pipelines.sources.billed_runs import billed_runs
from pipelines.sources.bounds import EARLIEST, LATEST
from pipelines.sources.jobstats import summaries
from pipelines.sources.local_times import resolve_spans, utc_candidates
from pipelines.sources.sacct_text import COLUMNS, read_rows
from pipelines.sources.tally import Tally
from pipelines.sources.tres import held_gpus, shards
from pipelines.tables import ACCOUNTING, RECORD, Batch

_NO_TIME: Final = ["Unknown", "None", "N/A", "INVALID", "NULL"]
_ELAPSED: Final = r"^(?:(\d+)-)?(\d+):(\d\d):(\d\d)$"
_T = TypeVar("_T")


def read_sacct(
    path: Path,
    *,
    cluster: str,
    zone: ZoneInfo,
    fields: Sequence[str] | None = None,
    shards_per_gpu: int | None = None,
    billing: BillingRule | None = None,
    name: str | None = None,
) -> Batch:
    """Runs of jobs as records, one row per run and GPU type, and where the accounting speaks for a node.

    Steps, jobs that never started and jobs without GPUs give no record. Of two rows of one run the ended one
    counts, then the longer. A running job's end is start + elapsed; without an elapsed time it is null.

    Args:
        cluster: name of the cluster.
        zone: of the file's local times.
        fields: the columns of a file without a header line.
        shards_per_gpu: how many shards a GPU has; without it jobs that hold shards alone hold nothing, and it is said.
        billing: how the billing of a job is told; None: it isn't kept.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read or lacks a column that runs can't be told without.
    """
    tally = Tally(name or path.name)
    rows = read_rows(path, tally, fields)
    _check_columns(path, rows)
    return batch_of(rows, cluster=cluster, zone=zone, shards_per_gpu=shards_per_gpu, billing=billing, tally=tally)


def batch_of(
    rows: pl.DataFrame,
    *,
    cluster: str,
    zone: ZoneInfo,
    tally: Tally,
    shards_per_gpu: int | None = None,
    billing: BillingRule | None = None,
) -> Batch:
    """What rows of accounting say, however they were written: ``line`` and ``sacct_text.COLUMNS``, all text.

    Args:
        zone: of local times; seconds since the epoch need none.
        tally: counts the bad rows; the batch's findings are all that it holds.
    """
    jobs = _runs(_job_rows(rows, tally), zone, tally)
    jobs = _one_row_per_run(jobs)
    _check_tracking(jobs, tally)
    billed = {} if billing is None else {"slurm_billing": billed_runs(jobs, cluster, billing, tally)}
    return Batch(
        records=_records(jobs, cluster, shards_per_gpu, tally),
        accounting=_accounting(jobs, cluster),
        facts=joined(
            [
                rows_of("summary", summaries(jobs, cluster, tally)),
                rows_of("run_name", _names(jobs, cluster)),
                billed,
            ]
        ),
        findings=tally.findings(),
    )


def _names(jobs: pl.DataFrame, cluster: str) -> list[dict[str, object]]:
    """Rows of ``facts.RUN_NAME`` of jobs that have GPUs."""
    gpus = pl.any_horizontal(pl.col(c).str.contains(r"gres/|gpu") for c in ("AllocTRES", "AllocGRES", "ReqTRES"))
    named = jobs.filter(gpus & pl.col("JobName").is_not_null()).select(workload="shown", name="JobName").unique()
    return [{"cluster": cluster, **row} for row in named.sort("workload", "name").iter_rows(named=True)]


def _check_columns(path: Path, rows: pl.DataFrame) -> None:
    present = {name for name in COLUMNS if not rows[name].is_null().all()}
    if rows.is_empty():
        return
    for either in (("JobID", "JobIDRaw"), ("Start",), ("End", "ElapsedRaw", "Elapsed")):
        if not present & set(either):
            raise SourceError(
                str(path),
                f"no column {' or '.join(either)}",
                "write it with `sacct -P -o JobID,JobIDRaw,Account,User,Partition,QOS,State,Start,End,ElapsedRaw,"
                "NodeList,AllocTRES`",
            )


def _job_rows(rows: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """Rows of jobs that started: no steps, nothing that is pending or was cancelled before."""
    rows = rows.with_columns(shown=pl.coalesce("JobID", "JobIDRaw"), run_id=pl.coalesce("JobIDRaw", "JobID"))
    malformed = rows.filter(~pl.col("shown").str.contains(r"^s?\d").fill_null(value=False))
    _count(tally, "row without a job id", malformed)
    return rows.filter(
        pl.col("shown").str.contains(r"^s?\d")
        & ~pl.col("shown").str.contains(".", literal=True)
        & ~pl.col("State").str.starts_with("PENDING").fill_null(value=False)
        & ~pl.col("Start").is_in(_NO_TIME).fill_null(value=True)
    )


def _runs(jobs: pl.DataFrame, zone: ZoneInfo, tally: Tally) -> pl.DataFrame:
    """``jobs`` with ``start``, ``end`` (null: running, nobody knows how long) and ``ended``."""
    end_text = jobs.select(
        pl.when(~pl.col("End").is_in(_NO_TIME)).then("End").otherwise(pl.lit(None, pl.String)).alias("End")
    )["End"]
    elapsed = _elapsed_seconds(jobs)
    start, end = resolve_spans(utc_candidates(jobs["Start"], zone), utc_candidates(end_text, zone), elapsed)
    ended = end_text.is_not_null()
    lasted = pl.duration(seconds=pl.col("elapsed"), time_unit="ms")
    jobs = jobs.with_columns(
        elapsed,
        start.alias("start"),
        end.alias("end"),
        ended.alias("ended"),
        (ended & end.is_null()).alias("bad_end"),
    ).with_columns(end=pl.when("ended").then("end").otherwise(pl.col("start") + lasted))
    possible = pl.all_horizontal(
        pl.col(name).is_between(EARLIEST, LATEST, closed="left").fill_null(value=True) for name in ("start", "end")
    )
    unreadable = pl.col("start").is_null() | pl.col("bad_end") | ~possible
    backwards = ~unreadable & (pl.col("end") < pl.col("start")).fill_null(value=False)
    _count(tally, "row whose Start or End is no time", jobs.filter(unreadable))
    _count(tally, "row that ends before it starts", jobs.filter(backwards))
    # What began and ended in one second held nothing that can be counted.
    return jobs.filter(~unreadable & (pl.col("end") > pl.col("start")).fill_null(value=True))


def _elapsed_seconds(jobs: pl.DataFrame) -> pl.Series:
    days, hours, minutes, seconds = (
        pl.col("Elapsed").str.extract(_ELAPSED, group).cast(pl.Int64, strict=False) for group in (1, 2, 3, 4)
    )
    elapsed = pl.coalesce(
        pl.col("ElapsedRaw").cast(pl.Int64, strict=False),
        days.fill_null(0) * 86400 + hours * 3600 + minutes * 60 + seconds,
    )
    possible = elapsed.is_between(0, (LATEST - EARLIEST).total_seconds())
    return jobs.select(pl.when(possible).then(elapsed).alias("elapsed"))["elapsed"]


def _one_row_per_run(jobs: pl.DataFrame) -> pl.DataFrame:
    """The same run may be told twice, running and ended: ended wins, then the longer."""
    return jobs.sort(~pl.col("ended"), "end", "line", descending=[False, True, False], nulls_last=True).unique(
        ["Cluster", "run_id", "start"], keep="first", maintain_order=True
    )


def _check_tracking(jobs: pl.DataFrame, tally: Tally) -> None:
    """A cluster that doesn't account for GPUs shows none: that is unknown, not zero."""
    tres = jobs["AllocTRES"]
    if tres.is_null().all() or tres.str.contains("gres/gpu|gres/shard").any():
        return
    tally.add(
        "no job has gres/gpu in AllocTRES: add gres/gpu to AccountingStorageTRES in slurm.conf if jobs use GPUs",
        count=jobs.height,
        code="gpus_not_tracked",
    )


def _records(jobs: pl.DataFrame, cluster: str, shards_per_gpu: int | None, tally: Tally) -> pl.DataFrame:
    jobs = jobs.with_columns(tres=pl.coalesce("AllocTRES", "AllocGRES", "ReqTRES"))
    gpus, bad_tres = _read_each(jobs["tres"], lambda text: held_gpus(text, shards_per_gpu))
    unknown_shards = [text for text, held in gpus.items() if not held and shards(text)]
    _count(
        tally,
        "row that holds shards: say how many a GPU has in `shards_per_gpu`",
        jobs.filter(pl.col("tres").is_in(unknown_shards)),
        code="gpus_not_tracked",
    )
    nodes, bad_nodes = _read_each(jobs["NodeList"], hostlist.expand)
    _count(tally, "row whose GPU count is no number", jobs.filter(pl.col("tres").is_in(bad_tres)))
    _count(tally, "row whose NodeList is no hostlist", jobs.filter(pl.col("NodeList").is_in(bad_nodes)))
    held = pl.DataFrame(
        [(text, kind, str(count)) for text, kinds in gpus.items() for kind, count in kinds.items()],
        schema={"tres": pl.String, "model": pl.String, "gpus": pl.String},
        orient="row",
    )
    hosts = pl.DataFrame(
        {"NodeList": list(nodes), "nodes": list(nodes.values())},
        schema={"NodeList": pl.String, "nodes": pl.List(pl.String)},
    )
    truncated = pl.col("Account").str.ends_with("+")
    holding = jobs.join(held, on="tres").join(hosts, on="NodeList", how="left")
    _count(
        tally,
        "row whose Account is cut short (`+`): run sacct with -P",
        jobs.filter(truncated.fill_null(value=False)),
    )
    return (
        holding.sort("start", "line", "model")
        .select(
            kind=pl.lit("slurm"),
            cluster=pl.lit(cluster),
            workload="shown",
            labelled_as="run_id",
            user="User",
            tenant=pl.lit(None, pl.String),
            start="start",
            end="end",
            ended="ended",
            gpus="gpus",
            device=pl.lit(None, pl.String),
            model="model",
            nodes=pl.col("nodes").fill_null([]),
            slurm_account=pl.when(~truncated).then("Account"),
            slurm_partition="Partition",
            slurm_qos="QOS",
            slurm_user="User",
        )
        .with_columns(pl.lit(None, pl.String).alias("class"))
        .select(pl.col(name).cast(kind) for name, kind in RECORD.items())
    )


def _accounting(jobs: pl.DataFrame, cluster: str) -> pl.DataFrame:
    """The file speaks for each node that it names, from its first start to its last end."""
    expanded, _ = _read_each(jobs["NodeList"], hostlist.expand)
    names = sorted({node for hosts in expanded.values() for node in hosts})
    bounds = jobs.select(start=pl.col("start").min(), end=pl.max_horizontal(pl.col("end").max(), pl.col("start").max()))
    start, end = bounds.row(0)
    return pl.DataFrame(
        {"cluster": cluster, "node": pl.Series(names, dtype=pl.String), "from": start, "to": end}, schema=ACCOUNTING
    )


def _read_each(column: pl.Series, read: Callable[[str], _T]) -> tuple[dict[str, _T], list[str]]:
    """What ``read`` makes of each distinct text, and the texts that it rejects."""
    results: dict[str, _T] = {}
    rejected = []
    for text in column.drop_nulls().unique().sort():
        try:
            results[text] = read(text)
        except ValueError:
            rejected.append(text)
    return results, rejected


def _count(tally: Tally, reason: str, rows: pl.DataFrame, *, code: str = "bad_line") -> None:
    if rows.height:
        tally.add(reason, int(rows["line"].min()), count=rows.height, code=code)  # type: ignore[arg-type]
