"""Sources → the ledger, each content once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from exporter.errors import SourceError
from pipelines.config import Config, Source
from pipelines.ledger import Import, Ledger
from pipelines.live import windows
from pipelines.sources import read
from pipelines.tables import Batch


@dataclass
class Ingested:
    """How much of what was new."""

    sources: int = 0
    unchanged: int = 0
    samples: int = 0
    records: int = 0
    findings: dict[str, int] = field(default_factory=dict)

    def count(self, entry: Import, samples: int, *, again: bool = False) -> None:
        """Count one import, which had so many samples; `again`: of a source that was counted already."""
        self.sources += not again
        self.samples += samples
        self.records += entry.batch.records.height + entry.batch.inventory.height
        for finding in entry.batch.findings:
            self.findings[finding.code] = self.findings.get(finding.code, 0) + finding.count


Progress = Callable[[str, datetime], None]
"""Told after each window of a live source: its name, and until when it is read."""


def ingest(
    ledger: Ledger,
    sources: Iterable[Source],
    config: Config,
    *,
    configured: bool,
    now: datetime,
    failed: list[SourceError] | None = None,
    progress: Progress | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Ingested:
    """Read what is new of each source into the ledger.

    Args:
        failed: takes the errors of sources that can't be read, and the others are read all the same; None: the first
            such error is raised.
        stopped: asked between windows and sources; what is left is the next pass's.

    Raises:
        SourceError: a source can't be read; those before it are in.
    """
    done = Ingested()
    for source in sources:
        if stopped():
            break
        try:
            if source.live:
                new = _follow(ledger, source, config, now, done, progress, stopped)
            else:
                new = _take_in(ledger, source, config, now, done, configured=configured)
        except SourceError as error:
            if failed is None:
                raise
            failed.append(error)
            continue
        done.unchanged += not new
    return done


def _follow(
    ledger: Ledger,
    source: Source,
    config: Config,
    now: datetime,
    done: Ingested,
    progress: Progress | None,
    stopped: Callable[[], bool],
) -> bool:
    """Take in what a live source has stored since, window by window; return whether there was anything."""
    any_new = False
    for window in windows(ledger, source, config, now):
        samples = ledger.follow(window, now)
        if window.entry is not None:
            done.count(window.entry, samples, again=any_new)
            any_new = True
        if progress is not None:
            progress(window.source, window.until)
        if stopped():
            break
    return any_new


def _take_in(
    ledger: Ledger, source: Source, config: Config, now: datetime, done: Ingested, *, configured: bool
) -> bool:
    """Take in a file's content that the ledger doesn't know yet; return whether it was new."""
    import_id = content_id(source, config)
    known = ledger.is_newest(import_id, source.kind, source.written) if configured else ledger.knows(import_id)
    if known:
        return False
    batch = read(source, config)
    if not configured:
        _refuse_another_kind(source, batch)
    entry = Import(import_id, source.kind, source.written, configured, batch)
    done.count(entry, ledger.add(entry, now))
    return True


def _refuse_another_kind(source: Source, batch: Batch) -> None:
    """Refuse a file of which no line can be read as what it was said to be: nobody would look at its findings."""
    bad = [f for f in batch.findings if f.code == "bad_line"]
    empty = batch.samples.is_empty() and not batch.more and batch.records.is_empty() and batch.inventory.is_empty()
    if empty and not batch.facts and bad:
        kind = source.kind.replace("_", "-")
        raise SourceError(bad[0].detail, f"nothing of it can be read as {kind}", "import it as what it is")


def content_id(source: Source, config: Config) -> str:
    """Return a name of a file's content and of how it is read.

    Raises:
        SourceError: it can't be read.
    """
    digest = hashlib.sha256()
    how = {
        "kind": source.kind,
        "cluster": source.cluster,
        "at": source.at.isoformat() if source.at else None,
        "fields": source.fields,
        "timezone": (source.timezone or config.timezone).key,
        "suffixes": source.path.suffixes,
    }
    # Keys that came later count where they are set, so that what was imported before them keeps its name.
    later = ("node", "shards_per_gpu", "billing", "billing_weights", "priority_flags")
    how |= {key: value for key in later if (value := getattr(source, key)) is not None}
    digest.update(json.dumps(how, sort_keys=True).encode())
    for path in [*_files(source.path), *([source.resolve(source.devices)] if source.devices else [])]:
        try:
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise SourceError(
                source.written, f"can't be read: {error.strerror}", "check the path and its permissions"
            ) from None
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.rglob("*.parquet") if p.is_file())
    if any(c in path.name for c in "*?["):
        return sorted(path.parent.glob(path.name))
    return [path]
