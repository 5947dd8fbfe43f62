"""``gpuledger alerts``: Prometheus rules and what goes with them, made from the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuledger import generated, options

DEFAULT_FOLDER: Final = Path("gpuledger-alerts")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the action, the folder and the addresses that the alerts name."""
    generated.add_arguments(parser, what="rules", default=DEFAULT_FOLDER)
    parser.add_argument("--grafana", metavar="URL", default="http://localhost:3000", help="Grafana, for links")
    parser.add_argument(
        "--runbooks",
        metavar="URL",
        default="runbooks",
        help="folder of the runbooks, for links (default: beside the rules)",
    )
    options.add_example(parser, "gpuledger alerts build --out /etc/prometheus/gpuledger")


def run(arguments: argparse.Namespace) -> int:
    """Build or check."""
    from alerts.build import build
    from alerts.links import Links

    config = options.load_config(arguments)
    links = Links(grafana=arguments.grafana, runbooks=arguments.runbooks)

    def make(out: Path) -> Sequence[Path]:
        return build(config, out, links)

    if arguments.action == "build":
        generated.write(make, arguments.out)
        return 0
    generated.verify(make, arguments.out, again=f"gpuledger alerts build --out {arguments.out}")
    generated.promtool_check(sorted(arguments.out.glob("*.rules.yml")))
    return 0
