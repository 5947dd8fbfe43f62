"""The ``gpuledger`` command: one table of sub-commands, each imported when it is used.

A command is a module of ``gpuledger.commands`` with ``configure(parser)``, which adds its arguments, and
``run(arguments) -> int``, which does the work and returns the exit status. Machine output goes to stdout and nothing
else does; progress, logs and errors go to stderr.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn, Protocol, cast

from exporter.errors import GpuLedgerError
from gpuledger.tables import one_line

COMMANDS: Final = {
    "demo": "replay the demo fleet into a ledger of its own and show where the money went",
    "exporter": "serve this node's GPU metrics to Prometheus",
    "run": "bring the ledger up to date: ingest, roll up, rate, publish",
    "import": "load files into the ledger",
    "replay": "report on a folder of recordings, in a throw-away ledger",
    "report": "report from the configured ledger",
    "job": "one job: use of each GPU, memory, energy, cost, waste, and why",
    "idle": "idle capacity by cause and owner, and what to reclaim first",
    "statement": "one tenant's statement as PDF, Excel, CSV or JSON",
    "explain": "walk from a statement's line to its leases, hours, coverage and rates",
    "focus": "export a period as FOCUS, checked",
    "close": "close a month for good: checked, numbered and chained",
    "adjust": "credit, reprice or reverse, booked in the open month",
    "rates": "the rate card, as it is or as it was known on a day",
    "whatif": "the same usage under another configuration, as a difference per tenant",
    "verify": "prove that the book is as it was closed",
    "lake": "list, verify, compact and prune the samples behind the ledger",
    "simulate": "make a simulated fleet with its ground truth, as a replay directory",
    "app": "serve the web app",
    "dashboards": "build and lint Grafana boards",
    "alerts": "build and lint Prometheus rules and Alertmanager routes",
    "availability": "what is free now and in the windows ahead, and whether reservations fit",
    "check": "check the configuration",
    "doctor": "check environment, sources, permissions and freshness, each with its mend",
}

EXAMPLES: Final = """\
examples:
  gpuledger demo                              see it work, on a simulated fleet
  gpuledger replay recorded/november          what a folder of recordings comes to
  gpuledger report --period 2026-11 --json    last month, for a script
"""


class Command(Protocol):
    """What a module of ``gpuledger.commands`` offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments, description and example."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; return the exit status."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that says where help is."""

    def error(self, message: str) -> NoReturn:
        """Print ``message`` as one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def command(name: str) -> Command:
    """The module behind a sub-command; ``import`` is a Python keyword, so its module has another name."""
    module = {"import": "import_files"}.get(name, name)
    return cast("Command", importlib.import_module(f"gpuledger.commands.{module}"))


def build_parser(*, load: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The whole command line; only the commands in ``load`` are imported and get their arguments."""
    shared = Parser(add_help=False)
    shared.add_argument(
        "--config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="configuration file (default: $GPULEDGER_CONFIG, else gpuledger.yaml)",
    )
    shared.add_argument(
        "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="log what is being done, on stderr"
    )
    parser = Parser(
        prog="gpuledger",
        description="Meters shared GPU fleets and turns what it measured into money that adds up.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[shared],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, help_text in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=help_text,
            description=help_text[0].upper() + help_text[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[shared],
            allow_abbrev=False,
        )
        if name in load:
            command(name).configure(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status (0 done, 1 the work failed, 2 bad usage or configuration)."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        with _stoppable():
            return _run(argv)
    except SystemExit as exit_request:  # argparse's way out of --help and of bad usage
        return exit_request.code if isinstance(exit_request.code, int) else 2


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end a command as an exception does, so that what is temporary goes; daemons set their own way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _run(argv: list[str]) -> int:
    try:
        status = _dispatch(argv)
        sys.stdout.flush()
    except GpuLedgerError as error:
        return _fail(str(error), error.exit_status)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has gone. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # noqa: BLE001  the last resort: a user is never shown a traceback unasked
        return _fail_unexpectedly(error)
    return status


def _dispatch(argv: list[str]) -> int:
    name = _command_name(argv)
    parser = build_parser(load=[name] if name in COMMANDS else [])
    if name is not None and name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        parser.error(f"there is no command {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    arguments = parser.parse_args(argv)
    if arguments.version:
        from gpuledger import __version__

        print(f"gpuledger {__version__}")
        return 0
    if name is None:
        parser.print_help(sys.stderr)
        return 2
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if getattr(arguments, "verbose", False) else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    return command(name).run(arguments)


def _command_name(argv: list[str]) -> str | None:
    """The first word that is neither an option nor the value of ``--config``."""
    words = iter(argv)
    for word in words:
        if word == "--config":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _fail(message: str, status: int) -> int:
    print(f"gpuledger: {one_line(message)}", file=sys.stderr)
    return status


def _fail_unexpectedly(error: Exception) -> int:
    if os.environ.get("GPULEDGER_DEBUG"):
        traceback.print_exception(error)
        return 1
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _fail(_missing_module(error.name), 1)
    if isinstance(error, OSError) and error.strerror:
        return _fail(f"{error.filename or 'operating system'}: {error.strerror}", 1)
    return _fail(
        f"unexpected {type(error).__name__}: {error}; "
        "this is a fault of GPULedger: please report it with what GPULEDGER_DEBUG=1 prints",
        1,
    )


def _missing_module(name: str) -> str:
    """Name the extra that brings a module: a node that has the exporter alone has nothing else."""
    extras = {
        "altair": "app",
        "pandas": "app",
        "streamlit": "app",
        "typst": "reports",
        "xlsxwriter": "reports",
        "grafanalib": "dashboards",
        "promql_parser": "dashboards",
    }
    top = name.partition(".")[0]
    extra = extras.get(top, "pipelines")
    return f"this needs the Python module {top!r}, which is not installed: install gpuledger[{extra}]"
