"""Sources → the ledger, each content once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl

from exporter.errors import SourceError
from pipelines.config import Config, Source
from pipelines.ledger import Import, Ledger
from pipelines.sources import read


@dataclass
class Ingested:
    """How much of what was new."""

    sources: int = 0
    unchanged: int = 0
    samples: int = 0
    records: int = 0
    findings: dict[str, int] = field(default_factory=dict)

    def count(self, entry: Import) -> None:
        """Count one import."""
        self.sources += 1
        self.samples += entry.batch.samples.height
        self.records += entry.batch.records.height + entry.batch.inventory.height
        for finding in entry.batch.findings:
            self.findings[finding.code] = self.findings.get(finding.code, 0) + finding.count


def ingest(ledger: Ledger, sources: Iterable[Source], config: Config, *, configured: bool, now: datetime) -> Ingested:
    """Read what is new of each source into the ledger.

    Raises:
        SourceError: a source can't be read; those before it are in.
    """
    done = Ingested()
    for source in sources:
        entry, until = (_live(ledger, source, config, now) if source.kind == "prometheus" else (None, None))
        if source.kind != "prometheus":
            import_id = content_id(source, config)
            known = ledger.is_newest(import_id, source.kind, source.written) if configured else ledger.knows(import_id)
            if known:
                done.unchanged += 1
                continue
            entry = Import(import_id, source.kind, source.written, configured, read(source, config))
        if entry is None:
            done.unchanged += 1
            continue
        ledger.add(entry, now, until=until)
        done.count(entry)
    return done


def _live(ledger: Ledger, source: Source, config: Config, now: datetime) -> tuple[Import | None, datetime | None]:
    """Read what a live source has stored since it was read last."""
    since = ledger.watermark(source.written)
    if since is not None and since >= now:
        return None, None
    batch = read(source, config, None if since is None else (since, now))
    if since is None:
        # The whole store was read; what is stamped later than now belongs to the next pass.
        batch.samples = batch.samples.filter(pl.col("time") < now)
    name = f"{source.written} {since.isoformat() if since else 'start'} {now.isoformat()}"
    import_id = hashlib.sha256(f"{name}\0{source.cluster}".encode()).hexdigest()
    return Import(import_id, source.kind, source.written, True, batch), now


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
    digest.update(json.dumps(how, sort_keys=True).encode())
    for path in _files(source.path):
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
