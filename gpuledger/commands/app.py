"""``gpuledger app``: the web app, from the published files of the configured ledger."""

from __future__ import annotations

import argparse

from gpuledger import options, webapp


def configure(parser: argparse.ArgumentParser) -> None:
    """Add --port and --address."""
    parser.add_argument("--port", type=int, metavar="N", default=webapp.DEFAULT_PORT, help="default: %(default)s")
    parser.add_argument(
        "--address", metavar="HOST", default=webapp.LOOPBACK, help="address to listen on (default: %(default)s)"
    )
    options.add_example(parser, "gpuledger app --port 8600")


def run(arguments: argparse.Namespace) -> int:
    """Check the configuration, then become the server."""
    options.load_config(arguments)
    webapp.serve(options.config_path(arguments), address=arguments.address, port=arguments.port)
