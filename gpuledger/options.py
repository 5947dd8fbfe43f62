"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from copy import copy
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from exporter.errors import WorkError

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.report import Report

CONFIG_VARIABLE: Final = "GPULEDGER_CONFIG"
CONFIG_NAME: Final = "gpuledger.yaml"
FALLBACK_WIDTH: Final = 130  # what a log or a pipe gets: every column of charges


def config_path(arguments: argparse.Namespace) -> Path:
    """The configuration file: ``--config``, else ``$GPULEDGER_CONFIG``, else ``gpuledger.yaml`` here."""
    return Path(getattr(arguments, "config", None) or os.environ.get(CONFIG_VARIABLE) or CONFIG_NAME)


def load_config(arguments: argparse.Namespace) -> Config:
    """The validated configuration; ConfigError names the file, the key and the mend."""
    from pipelines.config import load

    return load(config_path(arguments))


def config_is_unread(parser: argparse.ArgumentParser) -> None:
    """Say in the help that this command takes ``--config``, as every command does, and doesn't read it."""
    actions = parser._actions  # noqa: SLF001  argparse has no public way to an argument it holds
    for place, action in enumerate(actions):
        if action.dest == "config":
            # A copy: the argument itself is one for all commands.
            actions[place] = copy(action)
            actions[place].help = "taken, as by every command, but not read by this one"
            for group in parser._action_groups:  # noqa: SLF001  help is printed from the groups
                group._group_actions = [actions[place] if a is action else a for a in group._group_actions]  # noqa: SLF001


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``: for scripts."""
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, on stdout")


def add_window(parser: argparse.ArgumentParser) -> None:
    """``--from`` and ``--to``."""
    parser.add_argument(
        "--from",
        dest="start",
        metavar="T",
        help="start, ISO 8601; without an offset it is local to the configuration's timezone",
    )
    parser.add_argument("--to", dest="end", metavar="T", help="end, exclusive")


def window(arguments: argparse.Namespace, config: Config) -> tuple[datetime | None, datetime | None]:
    """``--from`` and ``--to`` in UTC; None where not given."""
    from pipelines.periods import parse_time

    start, end = (parse_time(text, config.timezone) if text else None for text in (arguments.start, arguments.end))
    return start, end


def add_recorded_on(parser: argparse.ArgumentParser) -> None:
    """``--as-recorded-on``: prices as they were known."""
    parser.add_argument(
        "--as-recorded-on",
        metavar="T",
        help="leave out prices that were `recorded` later; ISO 8601, local to timezone without an offset",
    )


def as_recorded_on(config: Config, arguments: argparse.Namespace) -> Config:
    """The configuration with the prices that were known then; itself where nothing is asked."""
    from pipelines.periods import parse_time

    if arguments.as_recorded_on is None:
        return config
    return config.as_recorded_on(parse_time(arguments.as_recorded_on, config.timezone))


def add_by(parser: argparse.ArgumentParser) -> None:
    """``--by``: who does it, as the book names them."""
    parser.add_argument("--by", metavar="NAME", default="", help="who does it (default: the user who runs this)")


def add_example(parser: argparse.ArgumentParser, *lines: str) -> None:
    """The example below the options."""
    parser.epilog = "\n".join(["example:" if len(lines) == 1 else "examples:", *(f"  {line}" for line in lines)])


def print_report(report: Report, *, json: bool) -> None:
    """The report on stdout: as JSON, or for people as wide as their terminal."""
    if json:
        print(report.to_json())
        return
    from gpuledger.summary import render

    width = shutil.get_terminal_size((FALLBACK_WIDTH, 24)).columns
    print(render(report.model_dump(mode="json", by_alias=True), width=width))


def progress(what: str) -> Callable[[int, int], None] | None:
    """A line on stderr that counts up in place; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, of: int) -> None:
        print(f"\r{what}: {done}/{of}", end="\n" if done >= of else "", file=sys.stderr, flush=True)

    return show


def note(text: str) -> None:
    """Say what is being done, on stderr: stdout is for the answer."""
    print(text, file=sys.stderr, flush=True)


def write_output(content: bytes, path: Path | None) -> None:
    """Write to a file, which has its name only once it is whole; without one to stdout.

    Raises:
        WorkError: the file can't be written.
    """
    if path is None:
        sys.stdout.buffer.write(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise WorkError(f"{path}: can't be written: {error.strerror}; choose another place with -o") from None
