"""``gpuledger exporter``: this node's GPUs to Prometheus; it reads no gpuledger.yaml."""

from __future__ import annotations

import argparse

from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the exporter's own arguments."""
    from exporter.main import add_arguments

    add_arguments(parser)
    options.config_is_unread(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    from exporter.main import run as serve

    return serve(arguments)
