"""``gpuledger rates``: the rate card, as it is or as it was known on a day."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gpuledger import options
from gpuledger.tables import align

if TYPE_CHECKING:
    from pipelines.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """Add when it was known."""
    options.add_recorded_on(parser)
    options.add_json(parser)
    options.add_example(parser, "gpuledger rates", "gpuledger rates --as-recorded-on 2026-10-31")


def run(arguments: argparse.Namespace) -> int:
    """Print each stretch of the card: which entry prices it, and since when that is known."""
    config = options.as_recorded_on(options.load_config(arguments), arguments)
    rows = _rows(config)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    heads = ("model", "from", "to", "on_demand", "reserved", "overflow", "spot", "recorded")
    table = [["Rates", "from", "to", "on demand", "reserved", "overflow", "spot", "recorded"]]
    table += [[f"  {row['model']}", *(row[head] or "" for head in heads[1:])] for row in rows]
    print("\n".join(align(table)) if rows else "no rates")
    return 0


def _rows(config: Config) -> list[dict[str, str | None]]:
    """One row a stretch, first match first; times are local to the configuration's timezone."""
    return [
        {
            "model": rate.model,
            **{
                name: None if at is None else at.astimezone(config.timezone).isoformat(timespec="minutes")
                for name, at in (("from", rate.from_), ("to", rate.to), ("recorded", rate.recorded))
            },
            **{name: format(rate.price(name), "f") for name in ("on_demand", "reserved", "overflow", "spot")},
        }
        for rate in config.rates_in_force
    ]
