"""What can be wrong around GPULedger: the environment, the configuration, its sources, the ledger, how old it all is.

Each check is a function that yields outcomes; nothing here writes anything.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from exporter.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.config import Config, Source

State = Literal["ok", "note", "wrong"]

EXTRAS: Final = {
    "pipelines": ("duckdb", "httpx", "numpy", "polars", "pydantic"),
    "dashboards": ("grafanalib",),
    "app": ("altair", "pandas", "streamlit"),
}
MINIMUM_FREE_BYTES: Final = 1 << 30
PROMETHEUS_TIMEOUT_SECONDS: Final = 5.0
STALE: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Outcome:
    """One thing that was looked at; ``mend`` says what to do where it isn't ok."""

    state: State
    subject: str
    found: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.state:5}  {self.subject}: {self.found}" + (f"; {self.mend}" if self.mend else "")


def examine(config_path: Path, *, now: datetime) -> Iterator[Outcome]:
    """Every outcome, in the order in which things are to be mended."""
    yield _python()
    yield from _extras()
    yield _nvml()
    if any(find_spec(module) is None for module in EXTRAS["pipelines"]):
        return
    from pipelines.config import load

    try:
        config = load(config_path)
    except ConfigError as error:
        yield Outcome("wrong", "configuration", str(error))
        return
    yield Outcome("ok", "configuration", f"{config_path}")
    for source in config.sources:
        yield check_source(source)
    yield from check_engine(config)
    yield check_folder(config.ledger)
    yield from check_ledger(config.ledger)
    yield check_freshness(config, now=now)


def _python() -> Outcome:
    version = ".".join(map(str, sys.version_info[:3]))
    return Outcome("ok", "Python", f"{version} in {sys.prefix}")


def _extras() -> Iterator[Outcome]:
    for extra, modules in EXTRAS.items():
        missing = [module for module in modules if find_spec(module) is None]
        if missing:
            needed = f"needed for more than the exporter: install gpuledger[{extra}]"
            yield Outcome("note", f"extra {extra}", f"{', '.join(missing)} not installed", needed)
        else:
            yield Outcome("ok", f"extra {extra}", "installed")


def _nvml() -> Outcome:
    import pynvml

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return Outcome("note", "NVML", f"{error}", "the exporter works only where the NVIDIA driver is")
    return Outcome("ok", "NVML", f"{count} GPUs")


def check_source(source: Source) -> Outcome:
    """Whether a source can be reached or read."""
    subject = f"source {source.kind}"
    if source.live:
        return _check_server(subject, source)
    path = source.path
    if not path.exists():
        return Outcome("wrong", subject, f"{path}: no such file", "mend its path in the configuration")
    if not os.access(path, os.R_OK):
        return Outcome("wrong", subject, f"{path}: no permission to read it", f"chmod a+r {path}")
    if path.is_file() and path.stat().st_size == 0:
        return Outcome("note", subject, f"{path}: empty", "look at what writes it")
    return Outcome("ok", subject, f"{path}")


def _check_server(subject: str, source: Source) -> Outcome:
    import httpx

    url = source.location
    path = "openapi" if source.kind == "slurmrestd" else "api/v1/status/buildinfo"
    try:
        # Unsigned: this asks whether somebody is there, and holds no secret that could be sent to the wrong place.
        answer = httpx.get(f"{url.rstrip('/')}/{path}", timeout=PROMETHEUS_TIMEOUT_SECONDS)
    except httpx.HTTPError as error:
        found = f"{url}: no answer ({str(error) or type(error).__name__})"
        return Outcome("wrong", subject, found, "is it up, and is the URL right?")
    if answer.status_code in (401, 403):
        return Outcome("ok", subject, f"{url}: answers, and asks who we are")
    if answer.is_error:
        return Outcome("wrong", subject, f"{url}: HTTP {answer.status_code}", "is this the root of its HTTP API?")
    return Outcome("ok", subject, f"{url}: answers")


def check_engine(config: Config) -> Iterator[Outcome]:
    """Whether the engine that rolls samples up, where one is named, is there."""
    from pipelines.engine.connect import missing

    url = config.engine.spark
    if url is not None:
        found, _, mend = (missing(url) or "").partition("; ")
        yield Outcome("wrong", "engine", found, mend) if found else Outcome("ok", "engine", f"{url}: is there")


def check_folder(folder: Path) -> Outcome:
    """Whether the ledger's folder can be written and has room."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir():
        return Outcome("wrong", "ledger", f"{existing} is no folder", "set `ledger` to another")
    if not os.access(existing, os.W_OK | os.X_OK):
        return Outcome("wrong", "ledger", f"{existing}: no permission to write", "chown it to the user of this")
    free = shutil.disk_usage(existing).free
    if free < MINIMUM_FREE_BYTES:
        return Outcome("wrong", "ledger", f"{free >> 20} MiB free at {existing}", "make room: 1 GiB at least")
    return Outcome("ok", "ledger", f"{folder}, {free >> 30} GiB free")


def check_ledger(folder: Path) -> Iterator[Outcome]:
    """Whether the ledger and what is published of it can be opened."""
    import duckdb

    from exporter.errors import LedgerBusy, LedgerError
    from pipelines import store
    from pipelines.ledger import LEDGER_NAME
    from pipelines.publish import published_fleet

    if not (folder / LEDGER_NAME).exists():
        return
    try:
        with store.opened(folder / LEDGER_NAME, read_only=True) as connection:
            imports = connection.execute("SELECT count(*) FROM imported").fetchall()[0][0]
        yield Outcome("ok", "ledger file", f"{imports:,} imports")
    except LedgerBusy as error:
        yield Outcome("ok", "ledger file", f"{error}")
    except (LedgerError, duckdb.CatalogException) as error:
        found = error if isinstance(error, LedgerError) else f"{folder / LEDGER_NAME}: is no ledger of this program"
        yield Outcome("wrong", "ledger file", f"{found}", "restore it from a backup, or import its sources again")
    try:
        published_fleet(folder)
        yield Outcome("ok", "published", "can be read")
    except LedgerError as error:
        yield Outcome("wrong", "published", f"{error}")


def check_freshness(config: Config, *, now: datetime) -> Outcome:
    """How old what the reports and the app read is."""
    published = (
        [path.stat().st_mtime for path in config.ledger.rglob("*") if path.is_file()] if config.ledger.exists() else []
    )
    if not published:
        return Outcome("note", "freshness", "nothing has been published yet", "gpuledger run --once")
    age = now - datetime.fromtimestamp(max(published), UTC)
    if age > STALE:
        return Outcome(
            "note", "freshness", f"last written {age.total_seconds() / 3600:.1f} h ago", "is `gpuledger run` running?"
        )
    return Outcome("ok", "freshness", f"last written {max(age.total_seconds(), 0) / 60:.0f} min ago")
