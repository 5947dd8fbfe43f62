"""Sources → the ledger, each content once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import polars as pl

from exporter.errors import SourceError
from pipelines.config import Config, Source
from pipelines.ledger import Import, Ledger
from pipelines.sources import read
from pipelines.tables import Batch

STORED_LATE: Final = timedelta(minutes=10)
"""How far back a live source is asked again: a scrape is stamped when it starts and stored when it has ended, up to
its timeout later, and remote writers lag behind by minutes."""


@dataclass
class Ingested:
    """How much of what was new."""

    sources: int = 0
    unchanged: int = 0
    samples: int = 0
    records: int = 0
    findings: dict[str, int] = field(default_factory=dict)

    def count(self, entry: Import, samples: int) -> None:
        """Count one import, which had so many samples."""
        self.sources += 1
        self.samples += samples
        self.records += entry.batch.records.height + entry.batch.inventory.height
        for finding in entry.batch.findings:
            self.findings[finding.code] = self.findings.get(finding.code, 0) + finding.count


def ingest(
    ledger: Ledger,
    sources: Iterable[Source],
    config: Config,
    *,
    configured: bool,
    now: datetime,
    failed: list[SourceError] | None = None,
) -> Ingested:
    """Read what is new of each source into the ledger.

    Args:
        failed: takes the errors of sources that can't be read, and the others are read all the same; None: the first
            such error is raised.

    Raises:
        SourceError: a source can't be read; those before it are in.
    """
    done = Ingested()
    for source in sources:
        try:
            entry, until = _new(ledger, source, config, configured=configured, now=now)
            samples = ledger.add(entry, now, until=until) if entry is not None else 0
        except SourceError as error:
            if failed is None:
                raise
            failed.append(error)
            continue
        if entry is None:
            done.unchanged += 1
            continue
        done.count(entry, samples)
    return done


def _new(
    ledger: Ledger, source: Source, config: Config, *, configured: bool, now: datetime
) -> tuple[Import | None, datetime | None]:
    """Return what a source holds that the ledger doesn't, None where there is nothing, and its new watermark."""
    if source.live:
        return _live(ledger, source, config, now), now
    import_id = content_id(source, config)
    known = ledger.is_newest(import_id, source.kind, source.written) if configured else ledger.knows(import_id)
    if known:
        return None, None
    batch = read(source, config)
    if not configured:
        _refuse_another_kind(source, batch)
    return Import(import_id, source.kind, source.written, configured, batch), None


def _refuse_another_kind(source: Source, batch: Batch) -> None:
    """Refuse a file of which no line can be read as what it was said to be: nobody would look at its findings."""
    bad = [f for f in batch.findings if f.code == "bad_line"]
    empty = batch.samples.is_empty() and not batch.more and batch.records.is_empty() and batch.inventory.is_empty()
    if empty and not batch.facts and bad:
        kind = source.kind.replace("_", "-")
        raise SourceError(bad[0].detail, f"nothing of it can be read as {kind}", "import it as what it is")


def _live(ledger: Ledger, source: Source, config: Config, now: datetime) -> Import | None:
    """Read what a live source has stored since it was read last."""
    # One server may be asked for GPUs' metrics and for the state of Kubernetes.
    name = source.written if source.kind == "prometheus" else f"{source.kind} {source.written}"
    since = ledger.watermark(name)
    if since is not None and since >= now:
        return None
    if source.kind == "slurmrestd":
        # It looks back by itself, and each pass is told again what the one before was.
        batch = read(source, config, None if since is None else (since, now))
        batch.records = ledger.new_rows("record", batch.records)
        batch.accounting = ledger.new_rows("accounting", batch.accounting)
    elif source.kind == "kube_state":
        # What a pod held is told anew, and longer, as long as it runs: equal runs are one.
        batch = read(source, config, None if since is None else (since - STORED_LATE, now))
    elif since is None:
        batch = read(source, config)
        # The whole store was read; what is stamped later than now belongs to the next pass.
        batch.samples = batch.samples.filter(pl.col("time") < now)
    else:
        batch = read(source, config, (since, now))
        late = ledger.unseen(read(source, config, (since - STORED_LATE, since)).samples, source.written)
        batch.samples = pl.concat([batch.samples, late], how="diagonal")
    if batch.samples.is_empty() and batch.records.is_empty() and not batch.facts and not batch.findings:
        return None
    window = f"{name} {since.isoformat() if since else 'start'} {now.isoformat()}"
    import_id = hashlib.sha256(f"{window}\0{source.cluster}".encode()).hexdigest()
    return Import(import_id, source.kind, name, True, batch)


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
    how |= {key: value for key in ("node", "shards_per_gpu") if (value := getattr(source, key)) is not None}
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
