"""What readers open: one DuckDB file for the operator and one for each tenant, never changed once it has its name.

A pointer file moves last and names the files that belong together. A tenant's file holds that tenant's rows and no
other's, so no query can show more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Final

import polars as pl

from exporter.errors import LedgerError
from pipelines import store
from pipelines.analysis.bottlenecks import bottleneck_table, bottlenecks
from pipelines.analysis.jobs import settled
from pipelines.analysis.scaling import scaling
from pipelines.analysis.stage import tables as analysis_tables
from pipelines.analysis.tables import BOTTLENECK
from pipelines.book.reckoning import Reckoned, Reckoning
from pipelines.config import Config
from pipelines.facts import RUN_NAME
from pipelines.findings import finding_table
from pipelines.fleet_state import of_tenant
from pipelines.idle.found import Idle, find_idle
from pipelines.idle.published import idle_tables
from pipelines.idle.published import of_tenant as reclaim_of_tenant
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.ledger import read_metered
from pipelines.metering import Metered
from pipelines.outlook.model import Outlook
from pipelines.outlook.tables import TABLES as OUTLOOK
from pipelines.outlook.tables import outlook_tables, read_outlook
from pipelines.periods import Period, local_months
from pipelines.published_tables import fleet_tables, tenant_tables
from pipelines.rating import Charge, Rated
from pipelines.report import Report
from pipelines.statement import workload_names
from pipelines.tenancy import tenancy
from pipelines.training import PROGRESS

FOLDER: Final = "published"
POINTER: Final = "current.json"
KEPT: Final = 2  # snapshots: a reader opens what a pointer named within that many publications, or while it is read

CHARGE: Final[dict[str, pl.DataType]] = {
    "period": pl.String(),
    "tenant": pl.String(),
    "lease": pl.String(),
    "workload": pl.String(),
    "model": pl.String(),
    "class": pl.String(),
    "reservation": pl.String(),
    "day": pl.Date(),  # local
    "start": pl.Datetime("ms", "UTC"),
    "end": pl.Datetime("ms", "UTC"),
    "gpus": pl.Float64(),
    "gpu_hours": pl.Float64(),
    "rate": pl.Decimal(38, 18),  # per GPU-hour, every digit of it; null: no price is known
}
"""grain: stretch of a lease in one class at one rate, within one local day."""


@dataclass(frozen=True)
class Publication:
    """What the pointer names.

    Attributes:
        tenants: file by tenant id.
        made_from: names the imports and the configuration that it was made from.
    """

    sequence: int
    as_of: datetime
    made_from: str
    fleet: str
    tenants: Mapping[str, str]


def current(ledger: Path) -> Publication | None:
    """Return what is published; None: nothing yet.

    Raises:
        LedgerError: the pointer is damaged.
    """
    path = ledger / FOLDER / POINTER
    try:
        pointer = json.loads(path.read_text())
        return Publication(**{**pointer, "as_of": datetime.fromisoformat(pointer["as_of"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise LedgerError(f"{path}: can't be read; run `gpuledger run --once` to publish again") from None


def last_published(ledger: Path) -> Publication | None:
    """Return what is published, None also where the pointer is damaged: who publishes again mends it."""
    try:
        return current(ledger)
    except LedgerError:
        return None


def published_fleet(ledger: Path) -> tuple[Metered, datetime]:
    """Return the fleet's published stages and as of when they are.

    Raises:
        LedgerError: nothing is published.
    """
    publication = current(ledger)
    if publication is None:
        raise LedgerError(f"{ledger}: nothing is published yet; run `gpuledger run --once`")
    with store.opened(ledger / FOLDER / publication.fleet, read_only=True) as connection:
        metered = read_metered(connection)
    if metered is None:
        raise LedgerError(f"{publication.fleet}: holds no usage; run `gpuledger run --once` to publish again")
    return metered, publication.as_of


def published_outlook(config: Config, period: Period) -> Outlook | None:
    """Return the outlook of a local month; None: none was published of it, or the period is no month.

    Raises:
        LedgerError: the pointer is damaged.
    """
    publication = current(config.ledger)
    if publication is None or local_months(period.start, period.end, config.timezone) != [period]:
        return None
    month = f"{period.start.astimezone(config.timezone):%Y-%m}"
    with store.opened(config.ledger / FOLDER / publication.fleet, read_only=True) as connection:
        return read_outlook(connection, month, period.start, period.end, config.currency)


def publish(config: Config, metered: Metered, *, made_from: str, as_of: datetime) -> Publication:
    """Rate every local month of the data and publish it, for the fleet and for each tenant.

    Raises:
        LedgerError: the folder can't be written; what was published before still stands.
    """
    folder = config.ledger / FOLDER
    before = last_published(config.ledger)
    sequence = 1 + max(_sequences(folder), default=0)
    reckoning = Reckoning(config, metered, as_of)
    reckoned = [(name, reckoning.of(period)) for name, period in _months(metered, config)]
    months = [(name, month.rated, month.report) for name, month in reckoned]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tables = {
            **_fleet_tables(metered, months, config, as_of),
            **idle_tables(_idle(metered, reckoned, as_of)),
        }
        fleet = _write(folder, f"fleet-{sequence}", tables)
        tenants = {}
        for tenant in (t.id for t in config.tenants):
            own = _tenant_tables(tenant, metered, months, config, tables)
            if own is not None:
                tenants[tenant] = _write_if_changed(folder, tenant, own, before)
        publication = Publication(sequence, as_of, made_from, fleet, tenants)
        _point(folder, publication)
    except OSError as error:
        raise LedgerError(
            f"{folder}: can't publish: {error.strerror}; what was published before still stands"
        ) from None
    _prune(folder, publication)
    return publication


def _sequences(folder: Path) -> Iterator[int]:
    """Yield the numbers of the fleet files that are there: a name that was published is never used again."""
    for path in folder.glob("fleet-*.duckdb"):
        number = path.stem.removeprefix("fleet-")
        if number.isdecimal():
            yield int(number)


def _months(metered: Metered, config: Config) -> Iterator[tuple[str, Period]]:
    if metered.span is None:
        return
    start, end = (from_ms(t) for t in metered.span)
    for month in local_months(start, end, config.timezone):
        yield f"{month.start.astimezone(config.timezone):%Y-%m}", month


Month = tuple[str, Rated, Report]


def _fleet_tables(metered: Metered, months: list[Month], config: Config, as_of: datetime) -> dict[str, pl.DataFrame]:
    span = metered.span or (None, None)
    charges = _charges(months, config)
    reports = {name: report for name, _, report in months}
    sums = fleet_tables(metered, reports, charges, config)
    return {
        "lease": metered.leases,
        "usage": metered.usage,
        "outage": metered.outages,
        **metered.state,
        "finding": finding_table(metered.findings),
        "metered_from": pl.DataFrame(
            {"made_from": [""], "made_at": [as_of], "span_start": [span[0]], "span_end": [span[1]]}
        ),
        "charge": charges,
        **analysis_tables(metered.analysis),
        "bottleneck": pl.concat([pl.DataFrame(schema=BOTTLENECK), *_bottlenecks(metered, months, config)]),
        "scaling": _scaling(metered, config),
        **sums,
        **outlook_tables(months, charges, sums["lease_period"], metered.span, config, as_of),
        "period_report": pl.DataFrame(
            [(name, report.model_dump_json()) for name, _, report in months],
            schema={"period": pl.String, "report": pl.String},
            orient="row",
        ),
        "tenant": _tenant_rows(config),
        "setting": _settings(config),
    }


def _idle(metered: Metered, reckoned: list[tuple[str, Reckoned]], as_of: datetime) -> Iterator[tuple[str, Idle]]:
    for name, month in reckoned:
        period = Period(month.report.period.from_, month.report.period.to)
        yield name, find_idle(metered, month.rated, month.config, period, as_of)


def _bottlenecks(metered: Metered, months: list[Month], config: Config) -> Iterator[pl.DataFrame]:
    """Yield the causes of each month; of a closed one as they are known now, in the money that it was closed with."""
    for name, rated, report in months:
        period = (to_ms(report.period.from_), to_ms(report.period.to))
        found = bottlenecks(rated, metered.analysis, period, config.currency)
        yield bottleneck_table(name, found, workload_names(rated))


def _scaling(metered: Metered, config: Config) -> pl.DataFrame:
    """Return how well jobs scale that ran at several sizes."""
    tenants = tenancy(metered.leases, config).unique("lease", keep="first", maintain_order=True)
    owners = (
        metered.leases.join(tenants.select("tenant", id="lease"), on="id", maintain_order="left", suffix="_found")
        .select("cluster", "workload", tenant="tenant_found", user=pl.coalesce("user", "slurm_user"))
        .unique(["cluster", "workload"], keep="first", maintain_order=True)
    )
    state = metered.state
    training, names = (
        state.get(name, pl.DataFrame(schema=schema))
        for name, schema in (("training", PROGRESS), ("run_name", RUN_NAME))
    )
    return scaling(metered.analysis.windows, training, names, owners)


def _tenant_tables(
    tenant: str, metered: Metered, months: list[Month], config: Config, fleet: Mapping[str, pl.DataFrame]
) -> dict[str, pl.DataFrame] | None:
    """Return the tables of one tenant; None where it has none."""
    charges = fleet["charge"].filter(pl.col("tenant") == tenant)
    own_reports = [
        (name, row.model_dump_json(), report.period.model_dump_json())
        for name, _, report in months
        for row in report.tenants
        if row.tenant == tenant
    ]
    if not charges.height and not own_reports:
        return None
    own = tenancy(metered.leases, config).filter(pl.col("tenant") == tenant).select("lease", "from", "to")
    usage = _own_usage(metered.usage, own, tenant)
    return {
        "lease": _own_leases(metered.leases, own),
        **of_tenant(metered.state, _own_leases(metered.leases, own)),
        "usage": usage,
        "charge": charges,
        "bottleneck": fleet["bottleneck"].filter(pl.col("tenant") == tenant),
        "bottleneck_window": _own_windows(metered, usage, months),
        "scaling": fleet["scaling"].filter(pl.col("tenant") == tenant),
        "reclaim": reclaim_of_tenant(tenant, fleet["reclaim"]),
        "idle_period": fleet["idle_period"],
        **tenant_tables(tenant, fleet),
        **{name: fleet[name].filter(pl.col("tenant") == tenant) for name in OUTLOOK},
        "tenant_report": pl.DataFrame(
            own_reports, schema={"period": pl.String, "report": pl.String, "bounds": pl.String}, orient="row"
        ),
        "tenant": _tenant_rows(config).filter(pl.col("id") == tenant),
        "setting": _settings(config),
    }


def _own_leases(leases: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return a tenant's leases, of those that change hands the time that is its own."""
    bounds = own.group_by("lease").agg(pl.col("from").min(), pl.col("to").max())
    cut = leases.join(bounds, left_on="id", right_on="lease", how="inner", maintain_order="left").with_columns(
        whole_start=pl.when(pl.col("from") > pl.col("start")).then("from").otherwise("whole_start"),
        start="from",
        end="to",
    )
    return cut.select(leases.columns)


def _own_usage(usage: pl.DataFrame, own: pl.DataFrame, tenant: str) -> pl.DataFrame:
    """Return a tenant's usage; that a device is dedicated to another is the other's affair."""
    mine = usage.join(own, on="lease", how="inner", maintain_order="left").filter(
        (pl.col("start") >= pl.col("from")) & (pl.col("start") < pl.col("to"))
    )
    return mine.with_columns(owner=pl.when(pl.col("owner") == tenant).then("owner")).select(usage.columns)


def _own_windows(metered: Metered, usage: pl.DataFrame, months: list[Month]) -> pl.DataFrame:
    """Return the hours of a tenant's own workloads, as each month's report sees them."""
    key = ["cluster", "workload", "hour"]
    mine = (
        usage.select("lease", hour=pl.col("start") // HOUR_MS * HOUR_MS)
        .join(metered.leases.select("cluster", "workload", lease="id"), on="lease")
        .select(key)
        .unique()
    )
    windows = [
        settled(metered.analysis.within((to_ms(report.period.from_), to_ms(report.period.to))).windows)
        for _, _, report in months
    ]
    table = pl.concat([metered.analysis.windows.clear(), *windows]).unique(key, keep="first", maintain_order=True)
    return table.join(mine, on=key, how="semi", maintain_order="left")


def _tenant_rows(config: Config) -> pl.DataFrame:
    """grain: tenant, in file order."""
    rows = [
        (
            t.id,
            t.name,
            t.parent,
            t.cost_center,
            json.dumps(dict(t.tags), sort_keys=True),
            str(t.budget.monthly) if t.budget and t.budget.monthly is not None else None,
            str(t.budget.gpu_hours) if t.budget and t.budget.gpu_hours is not None else None,
            t.quota.gpus if t.quota else None,
        )
        for t in config.tenants
    ]
    schema = {
        **dict.fromkeys(
            ("id", "name", "parent", "cost_center", "tags", "budget_monthly", "budget_gpu_hours"), pl.String
        ),
        "quota_gpus": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _settings(config: Config) -> pl.DataFrame:
    return pl.DataFrame(
        {"currency": [config.currency], "timezone": [config.timezone.key], "config_hash": [config.config_hash]}
    )


def _charges(months: list[Month], config: Config) -> pl.DataFrame:
    rows = [_charge_row(name, charge, config) for name, rated, _ in months for charge in rated.charges]
    return pl.DataFrame(rows, schema=CHARGE, orient="row")


def _charge_row(period: str, charge: Charge, config: Config) -> tuple[object, ...]:
    start = from_ms(charge.start)
    hours = charge.gpus * (charge.end - charge.start) / HOUR_MS
    return (
        period, charge.tenant, charge.lease, charge.workload, charge.model, charge.class_, charge.reservation,
        start.astimezone(config.timezone).date(), start, from_ms(charge.end), float(charge.gpus), float(hours),
        None if charge.rate is None else _decimal(charge.rate),
    )  # fmt: skip


def _decimal(rate: Fraction) -> Decimal:
    return Decimal(rate.numerator) / Decimal(rate.denominator)


def _write(folder: Path, name: str, tables: Mapping[str, pl.DataFrame]) -> str:
    """Write a file under a name of its own; it has that name only once it is whole."""
    # Whoever publishes holds the ledger, so what lies under these names was left by a pass that was killed.
    final, temporary = folder / f"{name}.duckdb", folder / f".{name}.tmp"
    store.discard(temporary)
    try:
        with store.opened(temporary, read_only=False) as connection:
            for table, rows in tables.items():
                connection.register("incoming", rows)
                connection.execute(f"CREATE TABLE {table} AS SELECT * FROM incoming")  # noqa: S608
                connection.unregister("incoming")
            connection.execute("CHECKPOINT")
        temporary.replace(final)
    finally:
        store.discard(temporary)
    return final.name


def _write_if_changed(folder: Path, tenant: str, tables: Mapping[str, pl.DataFrame], before: Publication | None) -> str:
    """Publish a tenant's file unless its rows are those already published."""
    digest = hashlib.sha256()
    for table, rows in tables.items():
        digest.update(f"{table} {rows.schema}".encode())
        digest.update(rows.hash_rows(seed=0).to_numpy().tobytes())  # by value: equal rows may lie in memory otherwise
    name = f"tenant-{tenant}-{digest.hexdigest()[:16]}"
    if before is not None and before.tenants.get(tenant) == f"{name}.duckdb" and (folder / f"{name}.duckdb").is_file():
        return f"{name}.duckdb"
    return _write(folder, name, tables)


def _point(folder: Path, publication: Publication) -> None:
    temporary = folder / f".{POINTER}.tmp"
    pointer = {**publication.__dict__, "as_of": publication.as_of.isoformat(), "tenants": dict(publication.tenants)}
    with temporary.open("w") as stream:
        json.dump(pointer, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(folder / POINTER)


def _prune(folder: Path, publication: Publication) -> None:
    """Remove files that no pointer of the last publications named, once nobody reads them.

    On a local disk a reader keeps a file that is removed; on a network one it would lose it amid its answer.
    """
    named = {publication.fleet, *publication.tenants.values()}
    history = folder / "history.json"
    try:
        kept = json.loads(history.read_text())
    except (OSError, ValueError):
        kept = []
    kept = [*kept, sorted(named)][-KEPT:]
    live = {name for names in kept for name in names}
    with suppress(OSError):  # what is published stands; the next publication prunes again
        for path in folder.glob("*.duckdb"):
            if path.name not in live and not store.is_read(path):
                path.unlink(missing_ok=True)
        history.write_text(json.dumps(kept))
