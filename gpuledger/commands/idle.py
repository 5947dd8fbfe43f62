"""``gpuledger idle``: idle capacity by cause and owner, what to reclaim first, and a notice for each owner."""

from __future__ import annotations

import argparse
import json
import shutil
from typing import TYPE_CHECKING, Final

from exporter.errors import UsageError
from gpuledger import options

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.idle.found import Idle

LISTED: Final = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the period, the owner, the notice and --json."""
    options.add_window(parser)
    parser.add_argument("--period", metavar="P", help="a local month (2026-11), day (2026-11-03) or year (2026)")
    parser.add_argument("--tenant", metavar="ID", help="what this tenant held or reserved, alone")
    parser.add_argument("--notice", metavar="TENANT", help="the text to mail to a tenant; with --json also its facts")
    parser.add_argument(
        "--limit", metavar="N", type=int, default=LISTED, help="lines of the list, as text (default: %(default)s)"
    )
    options.add_json(parser)
    options.add_example(
        parser,
        "gpuledger idle --period 2026-11",
        "gpuledger idle --period 2026-11 --notice vision | mail -s 'Idle GPUs' vision-leads",
    )


def run(arguments: argparse.Namespace) -> int:
    """Find what was idle in the published ledger and print it."""
    if arguments.period and (arguments.start or arguments.end):
        raise UsageError("--period and --from/--to name the same thing; give one of them")
    if arguments.limit < 0:
        raise UsageError("--limit is below 0; write how many lines are wanted")
    from pipelines.idle.notice import notice, notice_json

    config = options.load_config(arguments)
    for option in ("tenant", "notice"):
        _known(option, getattr(arguments, option), config)
    idle = _found(arguments, config)
    if arguments.notice:
        told = notice_json(idle, arguments.notice, config) if arguments.json else None
        print(notice(idle, arguments.notice, config) if told is None else json.dumps(told, indent=2))
        return 0
    idle = idle.of(arguments.tenant) if arguments.tenant else idle
    if arguments.json:
        print(json.dumps(idle.json(), indent=2))
        return 0
    from gpuledger.idleness import render

    width = shutil.get_terminal_size((options.FALLBACK_WIDTH, 24)).columns
    print(render(idle, config.timezone, width=width, limit=arguments.limit))
    return 0


def _known(option: str, tenant: str | None, config: Config) -> None:
    if tenant is not None and tenant not in {t.id for t in config.tenants}:
        raise UsageError(f"--{option} {tenant}: the configuration has no such tenant; see `gpuledger check`")


def _found(arguments: argparse.Namespace, config: Config) -> Idle:
    from pipelines.idle.found import find_idle
    from pipelines.operations import published_period

    start, end = options.window(arguments, config)
    published = published_period(config, start=start, end=end, period=arguments.period)
    reckoned = published.reckoned
    return find_idle(published.metered, reckoned.rated, reckoned.config, published.period, published.as_of)
