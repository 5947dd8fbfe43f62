"""All statements of a month in one ZIP file, made in a process of its own: ``python -m app.bulk CONFIG MONTH FILE``.

Prints ``done total`` after each tenant.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.statement_files import TYPES, file_name, focus
from exporter.errors import GpuLedgerError
from pipelines.book.compose import StatementMaker
from pipelines.book.reckoning import Reckoning
from pipelines.book.shelf import FOLDER, shelf
from pipelines.book.statements import Found, trends
from pipelines.config import Config, load
from pipelines.periods import parse_period
from pipelines.publish import published_fleet

POLITE: Final = 10  # pages go first


def bundle(config: Config, month: str, target: Path) -> Iterator[tuple[int, int]]:
    """Write every tenant's statement in every format, and FOCUS, and yield how many of how many files' owners are done.

    Raises:
        LedgerError: nothing was published yet.
    """
    found = statements(config, month)
    draft = target.with_suffix(".part")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        yield 0, len(found) + 1
        for n, one in enumerate(found, start=1):
            for format_ in TYPES:
                archive.writestr(file_name(one.statement, format_), one.rendered(format_))
            yield n, len(found) + 1
        archive.writestr(f"focus-1.2-{month}.csv", focus(config, month, "csv", "1.2", None))
    draft.replace(target)
    yield len(found) + 1, len(found) + 1


def statements(config: Config, month: str) -> list[Found]:
    """Return all statements of a month: as they were closed, or drafts that are reckoned together."""
    for book in shelf(config.ledger / FOLDER):
        if book.period == month:
            return [Found(book.statement(tenant), book) for tenant in book.numbers]
    metered, as_of = published_fleet(config.ledger)
    reckoned = Reckoning(config, metered, as_of).of(parse_period(month, config.timezone))
    maker = StatementMaker(reckoned.rated, reckoned.report, config)
    past = trends(config, month)
    return [
        Found(
            maker.of(
                row.tenant,
                label=month,
                entries=[e for e in reckoned.entries if e.tenant == row.tenant],
                trend=past.get(row.tenant, []),
            )
        )
        for row in reckoned.report.tenants
    ]


def main() -> int:
    """Run."""
    os.nice(POLITE)
    config, month, target = sys.argv[1:]
    try:
        for done, total in bundle(load(Path(config)), month, Path(target)):
            print(done, total, flush=True)  # noqa: T201  how it tells who started it
    except GpuLedgerError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
