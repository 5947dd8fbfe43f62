"""The engine on Spark Connect: any server that speaks it, Spark's own or Sail.

Spark only hands out tasks and takes back what they give; workers read the lake's files themselves, by ranges of cards,
as its order and row groups are made for. So nothing is shuffled, and no value passes through another engine's types.
"""

from __future__ import annotations

import logging
import shutil
import socket
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit
from uuid import uuid4

import polars as pl

from exporter.errors import EngineError
from pipelines.config import Config
from pipelines.engine.tasks import (
    FAILED,
    OWNERS,
    Looking,
    Measuring,
    Work,
    done,
    measuring_task,
    packed,
    releases,
    unpacked,
)
from pipelines.lake import SCRATCH, Stored
from pipelines.rollup import Instances, Stamps
from pipelines.shown import CARD_KEY, TABLES, nothing
from pipelines.sighting import Sight, reading_of

if TYPE_CHECKING:
    import pyarrow as pa

PORT: Final = 15002
REACH_S: Final = 5.0
WAVE_BYTES: Final = 16 << 20  # of tasks in one request: a server may refuse messages of 128 MiB
WAVE_TASKS: Final = 256
RETRIES: Final[dict[str, Any]] = {"max_retries": 4, "initial_backoff": 100, "max_backoff": 2000, "jitter": 100}
"""Three seconds in all, for a network that hiccups; the client's own are ten minutes and more."""
ALIVE: Final = [("grpc.keepalive_time_ms", 320_000), ("grpc.keepalive_timeout_ms", 20_000)]
"""A server that goes without a word is noticed so; asked more often than every five minutes Spark's hangs up."""
LEAVE_S: Final = 3.0
CLIENT: Final = ("pyspark", "grpc", "grpc_status", "pandas", "pyarrow")
_LOST: Final = ("UNAVAILABLE", "Socket closed", "failed to connect", "Connection reset", "Broken pipe")
_GIVEN: Final = "task long, name string, content binary"


def missing(url: str) -> str | None:
    """Return in one line why an engine can't be used, and the mend; None: it is there."""
    absent = [module for module in CLIENT if find_spec(module) is None]
    if absent:
        return f"engine.spark: {', '.join(absent)} not installed; pip install 'gpuledger[spark]'"
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or PORT), timeout=REACH_S).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f"engine.spark: {url}: can't be reached: {reason}; is its Spark Connect server up, and the URL right?"
    return None


class SparkEngine:
    """A Spark Connect server; its session begins with the first look and ends with this context."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Any = None
        self._channels: list[Any] = []
        self._scratch: Path | None = None

    def __enter__(self) -> Self:
        return self

    def connect(self) -> None:
        """Begin the session; the first look does so by itself.

        Raises:
            EngineError: the client isn't installed, or the server can't be reached.
        """
        reason = missing(self._url)
        if reason is not None:
            raise EngineError(reason)
        warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")  # said as an error
        with warnings.catch_warnings(), _named_main():
            warnings.simplefilter("ignore")  # of releases of pandas, which nothing here uses
            from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415  # an extra
            from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415  # an extra
            from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415  # an extra

            # What it says of a lost server is said here.
            logging.getLogger("pyspark").setLevel(logging.CRITICAL)
            channels = self._channels

            class Builder(DefaultChannelBuilder):
                def toChannel(self) -> Any:  # noqa: N802 - the client's name
                    channels.append(super().toChannel())
                    return channels[-1]

            session = SparkSession(Builder(self._url, ALIVE))  # asks nothing yet
            session.client.set_retry_policies([DefaultPolicy(**RETRIES)])
            self._asked(lambda: session.version)
            self._session = session

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._session is not None:
            # Also ends what still runs there; a server that is lost is not waited for.
            leaving = threading.Thread(target=self._session.stop, daemon=True)
            leaving.start()
            leaving.join(LEAVE_S)
            for channel in self._channels:
                channel.close()  # or what still waits for an answer would keep this process from ending
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self._session = self._scratch = None

    def _scratch_in(self, lake: Path) -> Path:
        """Make a folder for what workers keep from one job to the next; a killed pass's is swept away."""
        for old in lake.glob(f"{SCRATCH}*"):
            shutil.rmtree(old, ignore_errors=True)
        self._scratch = lake / f"{SCRATCH}{uuid4().hex}"
        with suppress(OSError):  # nothing is kept then
            self._scratch.mkdir()
        return self._scratch

    def look(self, stored: Stored, config: Config, scheduled: pl.DataFrame) -> Sight:
        """Return what all samples show; what they observed is measured on the workers too.

        Raises:
            LedgerError: a part of the lake is missing or damaged.
            EngineError: the client isn't installed, the server can't be reached, or it failed.
        """
        if self._session is None:
            self.connect()
        groups = stored.groups()
        made_by, reading = releases(), reading_of(config)
        scratch = self._scratch_in(stored.folder)
        looking = Looking(stored, reading, config.sharing.split, scheduled, made_by, scratch)
        tasks = (
            packed(
                pl.DataFrame(
                    {"cluster": g.cluster, "device": list(g.devices)}, schema=dict.fromkeys(CARD_KEY, pl.String)
                )
            )
            for g in groups
        )
        given: dict[str, list[pl.DataFrame]] = {name: [table] for name, table in nothing().items()}
        measured: list[pl.DataFrame] = []
        for name, table in self.run(looking, tasks):
            (measured if name == OWNERS else given[name]).append(table)
        tables = {name: pl.concat(given[name]) for name in TABLES}
        cards = pl.DataFrame(
            [(group.cluster, device, nth) for nth, group in enumerate(groups) for device in group.devices],
            schema={**dict.fromkeys(CARD_KEY, pl.String), "group": pl.Int64},
            orient="row",
        )
        return Sight(tables, SparkStamps(self, Measuring(stored, reading, made_by, scratch), cards), measured)

    def run(self, work: Work, tasks: Iterable[bytes]) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield what tasks give, in their order.

        Raises:
            EngineError: the engine or a task failed.
        """
        for wave in _waves(tasks):
            for _, name, content in sorted(self._asked(partial(self._given, work, wave)), key=lambda row: row[0]):
                if name == FAILED:
                    raise EngineError(f"{self._url}: a worker says: {content.decode()}")
                yield name, unpacked(content)

    def _given(self, work: Work, wave: list[bytes]) -> list[tuple[int, str, bytes]]:
        import pyarrow as pa  # noqa: PLC0415  # an extra

        tasks = pa.table({"task": pa.array(range(len(wave)), pa.int64()), "content": pa.array(wave, pa.binary())})
        frame = self._session.createDataFrame(tasks).repartition(len(wave))
        table = frame.mapInArrow(partial(_batches, work), _GIVEN).toArrow()
        return list(zip(*(table[c].to_pylist() for c in ("task", "name", "content")), strict=True))

    def _asked(self, ask: Any) -> Any:
        from grpc import RpcError  # noqa: PLC0415  # an extra
        from pyspark.errors import PySparkException  # noqa: PLC0415  # an extra

        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - who waits for it raises it
                answer.set_exception(error)

        # The client asks its server to stop when it is interrupted, and would wait for ever for its yes.
        threading.Thread(target=work, daemon=True).start()
        while not wait([answer], 0.2).done:
            pass  # a signal that another thread takes is seen by this one when it looks up
        try:
            return answer.result()
        except (PySparkException, RpcError, OSError) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            if any(sign in str(error) for sign in _LOST):
                if self._session is not None:
                    self._session.release_session_on_close = False
                what = (
                    "was lost in the middle, or can't be reached; see its own log, start it again and repeat the pass"
                )
            elif any("No module named" in line for line in lines):
                absent = next(line for line in lines if "No module named" in line)
                what = f"its workers lack this program: {absent}; install gpuledger[pipelines] on each"
            else:
                what = f"failed: {lines[0] if lines else type(error).__name__}; see the engine's own log"
            raise EngineError(f"{self._url}: {what}") from None


class SparkStamps(Stamps):
    """Observations that lie on no machine: the workers make them again where spans are to be measured.

    Args:
        cards: CARD_KEY and the ``group`` that a worker measures together.
    """

    def __init__(self, engine: SparkEngine, measuring: Measuring, cards: pl.DataFrame) -> None:
        super().__init__()
        self._engine, self._measuring, self._cards = engine, measuring, cards

    def measured(self, spans: pl.DataFrame, numbers: pl.DataFrame, instances: Instances) -> pl.DataFrame:
        """Add to each span what was observed in it."""
        grouped = numbers.join(self._cards, on=CARD_KEY, how="left", nulls_equal=True, maintain_order="left")
        of_device = grouped.select("dev", "group")
        known = spans.join(of_device, on="dev", maintain_order="left")
        unsampled = known.filter(pl.col("group").is_null()).drop("group")
        parted = known.drop_nulls("group").partition_by("group", as_dict=True, include_key=False)
        devices = grouped.drop_nulls("group").partition_by("group", as_dict=True, include_key=False)
        tasks = (measuring_task(some, devices[group], instances) for group, some in sorted(parted.items()))
        measured = [table for _, table in self._engine.run(self._measuring, tasks)]
        return pl.concat([super().measured(unsampled, numbers, instances), *measured])


@contextmanager
def _named_main() -> Iterator[None]:
    """Give a main program without a file, of `python -c`, one: the client takes it for its own tests, and exits."""
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = "<string>"
    try:
        yield
    finally:
        del main.__file__


def _waves(tasks: Iterable[bytes]) -> Iterator[list[bytes]]:
    wave: list[bytes] = []
    size = 0
    for task in tasks:
        if wave and (size + len(task) > WAVE_BYTES or len(wave) == WAVE_TASKS):
            yield wave
            wave, size = [], 0
        wave.append(task)
        size += len(task)
    if wave:
        yield wave


def _batches(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the tasks of a partition, on a worker."""
    import pyarrow as pa  # noqa: PLC0415  # an extra

    schema = pa.schema([("task", pa.int64()), ("name", pa.string()), ("content", pa.binary())])
    for batch in batches:
        for number, task in zip(batch["task"].to_pylist(), batch["content"].to_pylist(), strict=True):
            for name, content in done(work, task):
                yield pa.RecordBatch.from_pylist([{"task": number, "name": name, "content": content}], schema=schema)
