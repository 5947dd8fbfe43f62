"""``gpuledger alerts``: Prometheus rules and what goes with them, made from the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from exporter.errors import UsageError
from gpuledger import generated, options

DEFAULT_FOLDER: Final = Path("gpuledger-alerts")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the action, the folder and the addresses that the alerts name."""
    generated.add_arguments(parser, what="rules", default=DEFAULT_FOLDER)
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", type=Path, help="check: lint these files or folders instead"
    )
    parser.add_argument("--grafana", metavar="URL", default="http://localhost:3000", help="Grafana, for links")
    parser.add_argument("--app", metavar="URL", default="http://localhost:8501", help="the app, for links")
    parser.add_argument(
        "--runbooks",
        metavar="URL",
        default="runbooks",
        help="folder of the runbooks, for links (default: beside the rules)",
    )
    parser.add_argument(
        "--maintenance",
        metavar="FILE",
        type=Path,
        help="YAML list of Alertmanager's time intervals in which only critical alerts are sent",
    )
    options.add_example(
        parser,
        "gpuledger alerts build --out /etc/prometheus/gpuledger",
        "gpuledger alerts check /etc/prometheus/our-own.rules.yml",
    )


def run(arguments: argparse.Namespace) -> int:
    """Build or check."""
    from alerts.build import build
    from alerts.check import check
    from alerts.links import Links

    config = options.load_config(arguments)
    links = Links(grafana=arguments.grafana, runbooks=arguments.runbooks, app=arguments.app)

    def make(out: Path) -> Sequence[Path]:
        return build(config, out, links, maintenance=arguments.maintenance)

    if arguments.action == "build":
        if arguments.paths:
            raise UsageError(f"alerts build takes no {arguments.paths[0]}; name the folder with --out")
        generated.write(make, arguments.out)
        return 0
    if not arguments.paths:
        generated.verify(make, arguments.out, again=f"gpuledger alerts build --out {arguments.out}")
    generated.report_faults(check(arguments.paths or [arguments.out]))
    generated.promtool_check(rule_files(arguments.paths or [arguments.out]))
    return 0


def rule_files(paths: Sequence[Path]) -> list[Path]:
    """The rule files that ``paths`` name, folders included."""
    return [file for path in paths for file in (sorted(path.rglob("*.rules.yml")) if path.is_dir() else [path])]
