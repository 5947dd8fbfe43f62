"""``gpuledger app``: the web app, from the published files of the configured ledger."""

from __future__ import annotations

import argparse

from exporter.errors import UsageError
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
    access = options.load_config(arguments).access
    if access.sign_in == "none" and not webapp.is_loopback(arguments.address):
        raise UsageError(
            f"--address {arguments.address}: without a sign-in the app shows everything to whoever reaches it; "
            "set access.sign_in in the configuration, or leave --address out"
        )
    path = options.config_path(arguments)
    secrets = path.parent / access.secrets_file if access.secrets_file else None
    if secrets and not secrets.is_file():
        raise UsageError(f"access.secrets_file: {secrets} can't be read; write the provider's [auth] table there")
    webapp.serve(path, address=arguments.address, port=arguments.port, secrets=secrets)
