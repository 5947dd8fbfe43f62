"""Source `slurmrestd`: Slurm's REST API asked again and again, for accounting and for how the cluster is now.

The answers are read as the files of `slurm_json` and `slurm_state` are: they are the same documents.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import httpx
import polars as pl

from exporter.errors import SourceError
from pipelines.facts import joined
from pipelines.sources.prometheus.connection import Connection, CutShortError, Request, short
from pipelines.sources.prometheus.sign_in import client_of
from pipelines.sources.slurm_json import read_slurm_json
from pipelines.sources.slurm_state import read_slurm_state
from pipelines.tables import Batch

if TYPE_CHECKING:
    from pipelines.config import Source

VERSIONS: Final = tuple(f"v0.0.{number}" for number in range(44, 37, -1))
"""Of the API, the newest first."""

FIRST: Final = timedelta(days=90)
"""How far back the first pass asks, where the source has no `since`."""

LOOK_BACK: Final = timedelta(hours=1)
"""How far before the last pass each one asks: slurmctld sends what ends to slurmdbd when that has time for it."""

LOOK_FURTHER_BACK: Final = timedelta(days=7)
"""The same of the first pass of a UTC day: for a slurmdbd that was away, and for what was corrected."""

_SLICE: Final = timedelta(days=7)
_STATE: Final = ("slurm/{}/jobs", "slurm/{}/nodes", "slurm/{}/reservations", "slurm/{}/partitions")
_LIMITS: Final = ("slurmdb/{}/qos", "slurmdb/{}/associations")
_TOKEN: Final = "X-SLURM-USER-TOKEN"  # noqa: S105  the name of a header
_USER: Final = "X-SLURM-USER-NAME"
_MEND: Final = "check `bearer_token_file` (a JWT of `scontrol token`) and that the URL is slurmrestd's"


def read_slurm_rest(
    source: Source,
    window: tuple[datetime, datetime] | None,
    *,
    client: httpx.Client | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Batch:
    """Runs of jobs that touch ``window`` and its look-back, and nodes, reservations, limits and running jobs now.

    Args:
        window: since the last pass, and until now; None: of `FIRST`, or from the source's `since` on.

    Raises:
        SourceError: slurmrestd can't be asked, refuses the token, or answers in part only.
    """
    end = now() if window is None else window[1]
    start = _start(source, window, end)
    with closing(_Slurm(source, client)) as slurm, tempfile.TemporaryDirectory(prefix="gpuledger-slurm-") as folder:
        accounting = [
            read_slurm_json(
                slurm.jobs(first, last, Path(folder) / "jobs.json"),
                cluster=source.cluster or "default",
                shards_per_gpu=source.shards_per_gpu,
                billing=source.billing_rule,
                name=source.written,
            )
            for first, last in _slices(start, end)
        ]
        answers = [
            slurm.save(path.format(slurm.version), Path(folder) / "state.json", append=number > 0)
            for number, path in enumerate((*_STATE, *_LIMITS))
        ]
        state = read_slurm_state(
            answers[0],
            cluster=source.cluster or "default",
            zone=ZoneInfo("UTC"),
            at=end.replace(microsecond=0),
            devices=source.resolve(source.devices) if source.devices else None,
            shards_per_gpu=source.shards_per_gpu,
            name=source.written,
        )
    every = [*accounting, state]
    return Batch(
        records=pl.concat([batch.records for batch in every]).unique(maintain_order=True),
        accounting=_spoken(pl.concat([batch.accounting for batch in every])),
        findings=[finding for batch in every for finding in batch.findings],
        facts={name: table.unique(maintain_order=True) for name, table in joined(b.facts for b in every).items()},
    )


def _spoken(accounting: pl.DataFrame) -> pl.DataFrame:
    """Say once how far the accounting reaches, and name its nodes in rows that all passes of a day have alike."""
    if accounting.is_empty():
        return accounting
    reach = accounting.select("cluster", "node", pl.col("from").min(), pl.col("to").max()).head(1)
    midnight = pl.col("to").max().dt.truncate("1d")
    named = accounting.select("cluster", "node", midnight.alias("from"), midnight.alias("to")).unique(
        maintain_order=True
    )
    return pl.concat([reach, named])


def _start(source: Source, window: tuple[datetime, datetime] | None, end: datetime) -> datetime:
    if window is None:
        return source.since or end - FIRST
    since = window[0]
    back = LOOK_BACK if since.date() == end.date() else LOOK_FURTHER_BACK
    return max(since - back, source.since) if source.since is not None else since - back


def _slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield stretches, each of which is one answer: a year of a large cluster is too much to be written at once."""
    while start < end:
        yield start, min(start + _SLICE, end)
        start += _SLICE


def _between(start: datetime, end: datetime) -> dict[str, str]:
    # slurmrestd reads times in its own zone, which lies within a day of UTC: rather too many jobs than too few.
    day = timedelta(days=1)
    return {"start_time": f"{start - day:%Y-%m-%dT%H:%M:%S}", "end_time": f"{end + day:%Y-%m-%dT%H:%M:%S}"}


def _user_of(token: str) -> str | None:
    """Return whose token a JWT is: older versions of slurmrestd want to be told."""
    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        user = claims.get("sun") or claims.get("username")
    except (ValueError, AttributeError):
        return None
    return user if isinstance(user, str) else None


class _Slurm:
    """One slurmrestd, asked under the newest version of its API that is read here.

    Args:
        client: carries headers and TLS; None: that of the source.
    """

    def __init__(self, source: Source, client: httpx.Client | None) -> None:
        # The sign-in keys are a Prometheus's; slurmrestd has headers of its own for the user and the token.
        client = client or client_of(source.model_copy(update={"prometheus": source.written, "username": None}))
        token = client.headers.pop("Authorization", "").removeprefix("Bearer ")
        if token:
            client.headers[_TOKEN] = token
        user = source.username or _user_of(token)
        if user and _USER not in client.headers:
            client.headers[_USER] = user
        self._connection = Connection(source.written, client)
        self.version = self._newest()

    def close(self) -> None:
        self._connection.close()

    def _newest(self) -> str:
        for version in VERSIONS:
            status = self._connection.ask(Request("GET", f"/slurm/{version}/ping"), lambda answer: answer.status_code)
            if status == httpx.codes.OK:
                return version
            if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise SourceError(self._connection.url, f"refuses the sign-in (HTTP {status})", _MEND)
        what = f"speaks none of the versions {VERSIONS[-1]} to {VERSIONS[0]} of Slurm's REST API"
        raise SourceError(self._connection.url, what, _MEND)

    def jobs(self, start: datetime, end: datetime, file: Path) -> Path:
        """Write the accounting of some time into a file; return the file. Raises SourceError."""
        path, times = f"slurmdb/{self.version}/jobs", _between(start, end)
        if self.version != VERSIONS[-1]:  # which tells every run of a requeued job unasked
            times |= {"show_duplicates": "true"}
        return self.save(path, file, times)

    def save(self, path: str, file: Path, parameters: Mapping[str, str] | None = None, *, append: bool = False) -> Path:
        """Write an answer into a file, behind what stands there if `append`; return the file.

        Raises:
            SourceError: there is no answer, or none in JSON.
        """
        before = file.stat().st_size if append else 0

        def write(answer: httpx.Response) -> None:
            with file.open("r+b" if append else "wb") as out:
                out.seek(before)
                out.truncate()
                first = b""
                for piece in answer.iter_bytes():
                    first = first or piece.lstrip()[:200]
                    out.write(piece)
                out.write(b"\n")
            if answer.status_code != httpx.codes.OK or first[:1] != b"{":
                told = short(first.decode("utf-8", "replace"))
                raise SourceError(
                    self._connection.url, f"answered /{path} with HTTP {answer.status_code} ({told})", _MEND
                )
            length = answer.headers.get("Content-Length")
            if length is not None and length.isdecimal() and file.stat().st_size - before - 1 < int(length):
                raise CutShortError(f"{file.stat().st_size - before - 1} of {length} bytes")

        self._connection.ask(Request("GET", f"/{path}", parameters), write)
        return file
