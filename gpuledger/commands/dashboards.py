"""``gpuledger dashboards``: Grafana boards and their provisioning, made from the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuledger import generated, options

DEFAULT_FOLDER: Final = Path("gpuledger-dashboards")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the action, the folder and the addresses that the boards name."""
    generated.add_arguments(parser, what="boards", default=DEFAULT_FOLDER)
    parser.add_argument("--app", metavar="URL", default="http://localhost:8501", help="the app, for links")
    parser.add_argument(
        "--prometheus", metavar="URL", default="http://localhost:9090", help="the Prometheus that Grafana reads"
    )
    parser.add_argument(
        "--at",
        metavar="PATH",
        default="/var/lib/grafana/dashboards/gpuledger",
        help="where Grafana's machine has the boards (default: %(default)s)",
    )
    options.add_example(parser, "gpuledger dashboards build --out /etc/gpuledger/grafana")


def run(arguments: argparse.Namespace) -> int:
    """Build or check."""
    from dashboards.build import build

    config = options.load_config(arguments)

    def make(out: Path) -> Sequence[Path]:
        return build(config, out, app=arguments.app, prometheus=arguments.prometheus, at=arguments.at)

    if arguments.action == "build":
        generated.write(make, arguments.out)
    else:
        generated.verify(make, arguments.out, again=f"gpuledger dashboards build --out {arguments.out}")
    return 0
