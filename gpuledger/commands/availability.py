"""``gpuledger availability``: what is free now and in the windows ahead, and whether what is promised fits."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from exporter.errors import UsageError
from gpuledger import options

if TYPE_CHECKING:
    from pipelines.availability import Availability


def configure(parser: argparse.ArgumentParser) -> None:
    """Add --json, and what may be asked for."""
    parser.add_argument("--want", metavar="GPUS", type=int, help="say whether so many GPUs can be reserved; 1 if not")
    parser.add_argument("--model", metavar="GLOB", default="*", help="of which models (default: any)")
    options.add_window(parser)
    options.add_json(parser)
    options.add_example(
        parser,
        "gpuledger availability",
        "gpuledger availability --want 16 --model '*H100*' --from 2026-12-01 --to 2026-12-08",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read what is published; 1 where something is promised that can't be kept."""
    from pipelines.availability import availability
    from pipelines.publish import published_fleet

    config = options.load_config(arguments)
    metered, as_of = published_fleet(config.ledger)
    if arguments.want is not None:
        return _want(arguments)
    found = availability(metered, config, as_of)
    print(found.to_json() if arguments.json else "\n".join(_lines(found)))
    for refusal in found.refusals:
        print(f"gpuledger: {refusal}", file=sys.stderr)
    return 1 if found.refusals else 0


def _want(arguments: argparse.Namespace) -> int:
    from pipelines.availability import refuse_unless_fits
    from pipelines.booking import Booking
    from pipelines.publish import published_fleet

    config = options.load_config(arguments)
    start, end = options.window(arguments, config)
    if start is None or end is None:
        raise UsageError("--want needs --from and --to")
    if arguments.want < 1 or end <= start:
        raise UsageError("--want must be at least 1, and --to after --from")
    metered, _ = published_fleet(config.ledger)
    wanted = Booking("this request", "configuration", "", arguments.model, arguments.want, start, end)
    refuse_unless_fits(metered, config, wanted)
    if arguments.json:
        print('{"fits": true}')
    else:
        print(f"{arguments.want} GPUs of {arguments.model} fit from {start:%Y-%m-%dT%H:%MZ} to {end:%Y-%m-%dT%H:%MZ}")
    return 0


def _lines(found: Availability) -> list[str]:
    """The answer for people."""
    from gpuledger.tables import align, one_line

    head = ["model", "cards", "held", "free", "whole", "block", "down", "stranded", "unknown"]
    rows = [
        [
            one_line(m.model or "n/a"), _count(m.cards), _count(m.held), _count(m.free), str(m.free_whole),
            str(m.largest_block), _count(m.down), _count(m.stranded), _count(m.unknown),
        ]
        for m in found.models
    ]  # fmt: skip
    lines = [f"at {found.at:%Y-%m-%dT%H:%MZ}", "", *align([head, [], *rows])]
    if found.reservations:
        table = [
            [one_line(p.id), one_line(p.tenant or "n/a"), one_line(p.model or "*"), str(p.gpus),
             f"{p.from_:%Y-%m-%dT%H:%MZ}", f"{p.to:%Y-%m-%dT%H:%MZ}", "" if p.fits else "doesn't fit"]
            for p in found.reservations
        ]  # fmt: skip
        lines += [
            "",
            "reserved",
            *align([["id", "tenant", "model", "gpus", "from", "to", ""], [], *table], left=(0, 1, 2, 6)),
        ]
    windows = [
        [
            one_line(w.model or "n/a"),
            f"{w.from_:%Y-%m-%dT%H:%MZ}",
            f"{w.to:%Y-%m-%dT%H:%MZ}",
            str(w.gpus),
            str(w.largest_block),
        ]
        for w in found.windows
    ]
    if windows:
        lines += ["", "not reserved", *align([["model", "from", "to", "gpus", "block"], [], *windows], left=(0, 1, 2))]
    if found.trouble:
        rows = [
            [
                one_line(t.node or "n/a"),
                one_line(t.device),
                t.state,
                f"{t.since:%Y-%m-%dT%H:%MZ}",
                one_line(t.reason or ""),
            ]
            for t in found.trouble
        ]
        lines += [
            "",
            "trouble",
            *align([["node", "device", "state", "since", "reason"], [], *rows], left=(0, 1, 2, 3, 4)),
        ]
    failed = [test for test in found.tests if test.outcome in ("fail", "warn")]
    if failed:
        rows = [
            [one_line(t.node or "n/a"), one_line(t.device or ""), one_line(t.test), t.outcome, one_line(t.detail or "")]
            for t in failed
        ]
        lines += ["", "tests", *align([["node", "device", "test", "outcome", "detail"], [], *rows], left=range(5))]
    return lines


def _count(value: float) -> str:
    return f"{value:g}" if value == round(value, 3) else f"{value:.3f}"
