"""Source `slurm_json`: `sacct --json` and slurmrestd's answers about jobs → records and accounting."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import polars as pl

from exporter.errors import SourceError
from pipelines.slurm_billing import BillingRule
from pipelines.sources.files import open_source
from pipelines.sources.json_members import BrokenJson, Member, read_members
from pipelines.sources.sacct import batch_of
from pipelines.sources.sacct_text import COLUMNS
from pipelines.sources.slurm_json_row import row_of
from pipelines.sources.slurm_values import errors_in, moment
from pipelines.sources.tally import Tally
from pipelines.tables import Batch

_SCHEMA: Final = {"line": pl.UInt32, "document": pl.UInt32, **dict.fromkeys(COLUMNS, pl.String)}
_ROWS_AT_ONCE: Final = 50_000  # that stand as Python objects before they become a table
_MEND: Final = "write it with `sacct --json`, or save slurmrestd's answer to /slurmdb/VERSION/jobs"


def read_slurm_json(
    path: Path,
    *,
    cluster: str,
    shards_per_gpu: int | None = None,
    billing: BillingRule | None = None,
    name: str | None = None,
) -> Batch:
    """Runs of jobs as records, by the same steps as `sacct -P`, of which each job is read as the row.

    Of a job that the controller shows running, the end is when the answer says that jobs last changed
    (``last_update``), else null. Suspension is told as a length without its times, so it is held like the rest.
    A file may hold several answers one after another.

    Args:
        cluster: name of the cluster.
        shards_per_gpu: how many shards a GPU has.
        billing: how the billing of a job is told; None: it isn't kept.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read or is no answer about jobs.
    """
    tally = Tally(name or path.name)
    answers = _Answers(tally)
    with open_source(path) as stream:
        try:
            answers.read(read_members(stream, "jobs"))
        except BrokenJson as error:
            if not answers.about_jobs:
                raise SourceError(str(path), f"is no JSON ({error})", _MEND) from None
            tally.add(error.what, error.line)
    if not answers.about_jobs:
        raise SourceError(str(path), "has no `jobs`", _MEND)
    return batch_of(
        answers.rows(),
        cluster=cluster,
        zone=ZoneInfo("UTC"),
        shards_per_gpu=shards_per_gpu,
        billing=billing,
        tally=tally,
    )


class _Answers:
    """Rows of the answers in one file."""

    def __init__(self, tally: Tally) -> None:
        self.about_jobs = False
        self._tally = tally
        self._frames: list[pl.DataFrame] = []
        self._rows: list[tuple[Any, ...]] = []
        self._last_update: dict[int, str | None] = {}

    def read(self, members: Iterable[Member]) -> None:
        """Take in what is read; what stands before a break is kept."""
        for member in members:
            if member.entry:
                self._add(member)
            elif member.key == "jobs":
                self._begin(member)
            elif member.key == "last_update":
                self._last_update[member.document] = moment(member.value)
            elif member.key == "errors" and (count := errors_in(member.value)):
                self._tally.add("Slurm answered with an error", member.line, count=count)

    def rows(self) -> pl.DataFrame:
        """``line`` and ``COLUMNS``, as `sacct_text.read_rows` yields them."""
        self._flush()
        rows = pl.concat(self._frames)
        asked = pl.DataFrame(
            {"document": list(self._last_update), "asked": list(self._last_update.values())},
            schema={"document": pl.UInt32, "asked": pl.String},
        )
        started, until = (pl.col(name).cast(pl.Int64, strict=False) for name in ("Start", "asked"))
        return (
            rows.join(asked, on="document", how="left", maintain_order="left")
            .with_columns(ElapsedRaw=pl.coalesce("ElapsedRaw", (until - started).cast(pl.String)))
            .drop("document", "asked")
        )

    def _begin(self, member: Member) -> None:
        if isinstance(member.value, list):
            self.about_jobs = True
        else:
            self._tally.add("`jobs` that is no list", member.line)

    def _add(self, member: Member) -> None:
        if not isinstance(member.value, dict):
            self._tally.add("job that is no JSON object", member.line)
            return
        try:
            row = row_of(member.value)
        except ValueError:
            self._tally.add("job without its times", member.line)
            return
        self._rows.append((member.line, member.document, *(row.get(column) for column in COLUMNS)))
        if len(self._rows) == _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._frames.append(pl.DataFrame(self._rows, schema=_SCHEMA, orient="row"))
        self._rows = []
