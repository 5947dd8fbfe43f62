"""Files made from the configuration: written, or compared with what lies there."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.errors import WorkError
from gpuledger.tables import counted

Build = Callable[[Path], Sequence[Path]]


def add_arguments(parser: argparse.ArgumentParser, *, what: str, default: Path) -> None:
    """``build`` or ``check``, and the folder."""
    parser.add_argument(
        "action", choices=("build", "check"), help=f"build: write the {what}; check: are those in DIR what build makes?"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=default, help="folder (default: %(default)s)")


def write(build: Build, out: Path) -> None:
    """Write the files into ``out`` and say how many."""
    paths = build(out)
    print(f"wrote {len(paths)} files to {out}")


def verify(build: Build, out: Path, *, again: str) -> None:
    """Compare ``out`` with what ``build`` makes now; files of others in it are left alone.

    Raises:
        WorkError: a file is missing or differs; names the first, counts the others, says how to make them ``again``.
    """
    with tempfile.TemporaryDirectory(prefix="gpuledger-check-") as folder:
        names = [path.relative_to(folder) for path in build(Path(folder))]
        stale = [
            f"{out / name}: {'differs from' if (out / name).exists() else 'is missing from'} what is made now"
            for name in names
            if not (out / name).is_file() or (out / name).read_bytes() != (Path(folder) / name).read_bytes()
        ]
    if stale:
        more = f" (and {len(stale) - 1} more)" if len(stale) > 1 else ""
        raise WorkError(f"{stale[0]}{more}; run `{again}`")
    print(f"{out}: {len(names)} files, all as the configuration makes them")


def report_faults(faults: Sequence[object]) -> None:
    """Print each fault on a line of its own.

    Raises:
        WorkError: there is one; says how many.
    """
    for fault in faults:
        print(fault)
    if faults:
        raise WorkError(f"{counted(len(faults), 'fault')} found; mend what is listed")


def promtool_check(rules: Sequence[Path]) -> None:
    """Let Prometheus's own tool read rule files, where it is installed.

    Raises:
        WorkError: it refuses one.
    """
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not installed: rules were not read by Prometheus's own parser")
        return
    done = subprocess.run(  # noqa: S603  a fixed program; the arguments are paths
        [promtool, "check", "rules", *map(str, rules)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WorkError(f"promtool refuses the rules: {done.stderr or done.stdout}")
    print(f"promtool accepts {len(rules)} rule files")
