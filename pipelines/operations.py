"""What the commands do: replay, import, run, report, through one pipeline."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from exporter.errors import LedgerError, SourceError, UsageError, WorkError
from pipelines.book.presence import hold_tenants
from pipelines.book.reckoning import Reckoned, Reckoning
from pipelines.config import Config, Source, load
from pipelines.engine import engine_of
from pipelines.findings import merge_findings
from pipelines.ingest import Ingested, Progress, ingest
from pipelines.instants import from_ms
from pipelines.intervals import Interval
from pipelines.lake_upkeep import compact
from pipelines.ledger import Ledger, open_ledger
from pipelines.metering import Metered, meter_again
from pipelines.periods import Period, parse_period
from pipelines.publish import Publication, last_published, publish, published_fleet, published_outlook
from pipelines.rating import rate
from pipelines.report import Report
from pipelines.sighting import Engine
from pipelines.statement import make_report, within_of

SMALL_PARTS: Final = 8
"""Of so many parts a day that is over is merged into one: a pass every five minutes writes 288 a day."""


@dataclass(frozen=True)
class RunResult:
    """One pass: what was new, and what was published.

    Attributes:
        failed: sources that couldn't be read.
        watermarks: until when each live source is read.
    """

    ingested: Ingested
    rebuilt: bool
    publication: Publication | None
    failed: tuple[SourceError, ...] = ()
    watermarks: Mapping[str, datetime] = field(default_factory=dict)

    def whole(self) -> RunResult:
        """Return it where every source could be read.

        Raises:
            SourceError: one couldn't.
        """
        if self.failed:
            raise _joined(self.failed)
        return self

    def __str__(self) -> str:
        done = self.ingested
        new = f"{done.samples:,} samples and {done.records:,} records from {done.sources} sources"
        same = f"{done.unchanged} unchanged"
        if not self.rebuilt:
            return f"nothing new ({same})"
        tenants = len(self.publication.tenants) if self.publication else 0
        found = ", ".join(f"{count:,} {code}" for code, count in sorted(done.findings.items()))
        return f"read {new} ({same}); published the fleet and {tenants} tenants" + (f"; found {found}" if found else "")


def replay(directory: Path, *, start: datetime | None = None, end: datetime | None = None) -> Report:
    """Put everything in a folder through the pipeline, in a throw-away ledger, and return the report.

    Args:
        directory: holds gpuledger.yaml and the files that its sources name.
        start, end: what to report on; without them the configuration's period, else the span of the data.

    Raises:
        UsageError: the configuration or the window is wrong.
        WorkError: a source can't be read, or all of them together hold nothing.
    """
    config = load(directory / "gpuledger.yaml")
    window = _window(config, start, end)
    with tempfile.TemporaryDirectory(prefix="gpuledger-replay-") as folder:
        now = datetime.now(UTC)
        with open_ledger(Path(folder), "replay") as ledger:
            ingest(ledger, config.sources, config, configured=True, now=now)
            metered = _meter(ledger, config, window, now)
            within = window or metered.span
            if within is None:
                raise WorkError(
                    f"{directory}: its sources hold no sample and no ended allocation{_because(metered)}; look at its"
                    " files, or say what to report on with --from and --to"
                )
        return report_on(metered, config, within, as_of=from_ms(within[1]))


def _because(metered: Metered) -> str:
    """Return what was found wrong with sources that gave nothing."""
    found = merge_findings(metered.findings)
    return f" ({found[0].count} × {found[0].detail})" if found else ""


def import_files(
    config: Config,
    kind: str,
    paths: Sequence[Path],
    *,
    cluster: str | None = None,
    told: Mapping[str, str] | None = None,
) -> RunResult:
    """Load files into the ledger; the same content again changes nothing.

    Args:
        cluster: of the files; None: that of the configured sources of the kind, where they agree.
        told: other keys of a source that the files don't say themselves: ``at``, ``node``.

    Raises:
        UsageError: the configured sources of the kind are of several clusters, and none was chosen.
        ConfigError: a tenant with rows isn't listed any more.
        WorkError: a file can't be read, or the ledger is held by another process.
    """
    alike = [s for s in config.sources if s.kind == kind and cluster in (None, s.cluster)]
    clusters = sorted({s.cluster for s in alike if s.cluster})
    if cluster is None and len(clusters) > 1:
        raise UsageError(f"--cluster is missing: sources of kind {kind} are of {' and '.join(clusters)}; choose one")
    like = alike[0] if alike else None
    sources = [_file_source(config, kind, path, like, cluster, told or {}) for path in paths]
    with open_ledger(config.ledger, f"gpuledger import {kind}") as ledger:
        hold_tenants(config)
        done = ingest(ledger, sources, config, configured=False, now=datetime.now(UTC))
        return _finish(ledger, config, done, datetime.now(UTC))


def run_once(config: Config) -> RunResult:
    """Do one pass: ingest what is new, roll up, rate, publish.

    Raises:
        ConfigError: a tenant with rows isn't listed any more.
        WorkError: a source can't be read (what the others have is published all the same), or the ledger is held by
            another process.
    """
    return run_pass(config).whole()


def run_pass(
    config: Config, *, progress: Progress | None = None, stopped: Callable[[], bool] = lambda: False
) -> RunResult:
    """The same, where a source that can't be read is told in the result.

    Args:
        progress: told after each window of a live source.
        stopped: asked between windows; once it says so the pass ends, and what was read stays read.

    Raises:
        WorkError: the ledger is held by another process, or can't be written.
    """
    failed: list[SourceError] = []
    with open_ledger(config.ledger, "gpuledger run") as ledger:
        hold_tenants(config)
        now = datetime.now(UTC)
        done = ingest(
            ledger, config.sources, config, configured=True, now=now, failed=failed, progress=progress, stopped=stopped
        )
        if stopped() or (failed and len(failed) == len(config.sources)):
            result = RunResult(done, rebuilt=False, publication=None)
        else:
            result = _finish(ledger, config, done, now)
            compact(ledger, before=now.date(), at_least=SMALL_PARTS)
        return replace(result, failed=tuple(failed), watermarks=ledger.watermarks())


def _joined(failed: Sequence[SourceError]) -> SourceError:
    """Return the first source's error, which says how many more there are."""
    first = failed[0]
    if len(failed) == 1:
        return first
    return SourceError(first.source, first.what, f"{first.mend}; {len(failed) - 1} more sources can't be read either")


def report(
    config: Config,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    period: str | None = None,
    tenant: str | None = None,
) -> Report:
    """Return the report of a period from the published ledger.

    Raises:
        UsageError: no such period or tenant.
        LedgerError: nothing was published yet.
    """
    if tenant is not None and tenant not in {t.id for t in config.tenants}:
        raise UsageError(f"--tenant {tenant}: the configuration has no such tenant; see `gpuledger check`")
    published = published_period(config, start=start, end=end, period=period)
    asked, reckoned = published.period, published.reckoned
    found = reckoned.report
    if reckoned.closed is None:
        found = found.model_copy(update={"outlook": published_outlook(config, asked)})
    return found if tenant is None else found.of(tenant)


@dataclass(frozen=True)
class Published:
    """A period of the published ledger.

    Attributes:
        current: what is metered now, whether or not the period was closed with that.
        as_of: as of when that is.
        reckoned: the period's money.
    """

    current: Metered
    as_of: datetime
    period: Period
    reckoned: Reckoned

    @property
    def metered(self) -> Metered:
        """The stages that the period was reckoned from."""
        return self.reckoned.metered_from(self.current)


def published_period(
    config: Config, *, start: datetime | None = None, end: datetime | None = None, period: str | None = None
) -> Published:
    """Return a period of the published ledger; without one named the configuration's, else the span of the data.

    Raises:
        UsageError: no such period.
        LedgerError: nothing was published yet.
    """
    hold_tenants(config)
    metered, as_of = published_fleet(config.ledger)
    window = within_of(parse_period(period, config.timezone)) if period else _window(config, start, end)
    within = window or metered.span
    if within is None:
        raise LedgerError(f"{config.ledger}: the ledger holds no sample and no ended allocation; name a --period")
    asked = Period(from_ms(within[0]), from_ms(within[1]))
    reckoned = Reckoning(config, metered, as_of).of(asked)
    return Published(metered, as_of, asked, reckoned)


def report_on(metered: Metered, config: Config, within: Interval, *, as_of: datetime) -> Report:
    """Rate a period, given in ms, of what was metered."""
    rated = rate(metered, config, within)
    period = Period(from_ms(within[0]), from_ms(within[1]))
    return make_report(rated, config, period, [*metered.findings, *rated.findings], as_of)


def _finish(ledger: Ledger, config: Config, done: Ingested, now: datetime) -> RunResult:
    made_from = ledger.basis(config.config_hash)
    published = last_published(config.ledger)
    if published is not None and published.made_from == made_from:
        return RunResult(done, rebuilt=False, publication=None)
    with engine_of(config) as engine:
        metered = _meter(ledger, config, _window(config, None, None), now, engine)
    return RunResult(done, rebuilt=True, publication=publish(config, metered, made_from=made_from, as_of=now))


def _meter(
    ledger: Ledger, config: Config, window: Interval | None, now: datetime, engine: Engine | None = None
) -> Metered:
    made_by = f"{config.config_hash}:{window}"
    memory = ledger.memory(made_by)
    metered, remade = meter_again(ledger.inputs(), config, window=window, memory=memory, engine=engine)
    findings = [*ledger.findings(), *metered.findings]
    made_from = ledger.basis(config.config_hash)
    ledger.store_metered(metered, remade, made_from=made_from, made_by=made_by, at=now, findings=findings)
    ledger.analyse(metered)
    stored = ledger.metered()
    if stored is None:
        raise LedgerError(f"{ledger.folder}: what was just written is not there; check the disk")
    return stored


def _window(config: Config, start: datetime | None, end: datetime | None) -> Interval | None:
    if start is not None and end is not None:
        if end <= start:
            raise UsageError("--to is not after --from; write a later time")
        return within_of(Period(start, end))
    if start is not None or end is not None:
        missing = "--to" if start is not None else "--from"
        raise UsageError(f"{missing} is missing: a window needs both --from and --to")
    reporting = config.reporting_period
    return None if reporting is None else within_of(reporting)


def _file_source(
    config: Config, kind: str, path: Path, like: Source | None, cluster: str | None, told: Mapping[str, str]
) -> Source:
    named = cluster or (like.cluster if like else None)
    options: dict[str, object] = {"cluster": named} if named else {}
    if like:
        # How files of this kind are to be read, of which one stands in the configuration.
        alike = (
            *("fields", "timezone", "shards_per_gpu", "devices"),
            *("billing", "billing_weights", "priority_flags"),
        )
        options |= {key: value for key in alike if (value := getattr(like, key)) is not None}
    options |= told
    try:
        return Source.model_validate(
            {kind: str(path.absolute()), **options}, context={"path": config.path, "zone": config.timezone}
        )
    except ValidationError as error:
        # What the user wrote beside the file's name; the file itself isn't looked at yet.
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or str(first.get("ctx", {}).get("key", ""))
        wrong = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(f"import {kind.replace('_', '-')}: {key and f'--{key} '}{wrong}") from None
