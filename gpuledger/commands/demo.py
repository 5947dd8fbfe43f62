"""``gpuledger demo``: the main job on a fleet that comes with the program."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Final

from exporter.errors import UsageError
from gpuledger import options, webapp

DEFAULT_FOLDER: Final = Path("gpuledger-demo")
MARKER: Final = "truth.json"  # every simulated fleet has one, and hardly anything else does


def configure(parser: argparse.ArgumentParser) -> None:
    """Add --no-serve, --dir and --port."""
    parser.add_argument("--no-serve", action="store_true", help="end after the summary")
    parser.add_argument(
        "--dir", metavar="D", type=Path, default=DEFAULT_FOLDER, help="folder to work in (default: %(default)s)"
    )
    parser.add_argument("--port", metavar="N", type=int, help="port of the app (default: the first free from 8501 on)")
    options.config_is_unread(parser)
    options.add_example(
        parser, "gpuledger demo --no-serve", "gpuledger report --config gpuledger-demo/gpuledger.yaml --json"
    )


def run(arguments: argparse.Namespace) -> int:
    """Simulate, run the pipeline, print where the money went, serve the app."""
    from alerts.build import build as build_alerts
    from dashboards.build import build as build_dashboards
    from pipelines.config import load
    from pipelines.operations import report, run_once
    from pipelines.simulate import simulate

    folder: Path = arguments.dir
    clear(folder)
    options.note("simulating 30 days of a fleet of 64 GPUs")
    simulate(folder, progress=options.progress("days"))
    config = load(folder / options.CONFIG_NAME)
    options.note("ingesting, rolling up, rating, publishing")
    run_once(config)
    options.note("building dashboards and rules")
    build_dashboards(config, folder / "grafana")
    build_alerts(config, folder / "prometheus")
    options.print_report(report(config, start=None, end=None, period=None, tenant=None), json=False)
    print(f"\nIn {folder}: the ledger, Grafana boards (grafana/), Prometheus rules (prometheus/).")
    print(f"Every command works there: gpuledger report --config {folder / options.CONFIG_NAME}", flush=True)
    if not arguments.no_serve:
        port = webapp.free_port() if arguments.port is None else arguments.port
        options.note(f"serving http://{webapp.LOOPBACK}:{port}  (Ctrl-C ends it)")
        webapp.serve(config.path, port=port)
    return 0


def clear(folder: Path) -> None:
    """Make way for a fresh demo: an earlier one goes, anything else is left alone.

    Raises:
        UsageError: the folder holds something that no demo wrote.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if (folder / MARKER).is_file() and (folder / options.CONFIG_NAME).is_file():
        shutil.rmtree(folder)
    elif folder.exists():
        raise UsageError(f"--dir {folder}: exists and holds no demo; name an empty or a new folder")
