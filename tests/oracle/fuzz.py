"""Runs the oracle and a command over random replay directories and says where they differ.

    python -m tests.oracle.fuzz --cmd "gpuledger" --seeds 0:200 --features handover,holes

Directories that differ are kept, with both reports, in a temporary folder that the last line names. Exits 1 on any
difference.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.oracle.compare import differences
from tests.oracle.random_cases import DOUBTFUL, FEATURES, make_case
from tests.oracle.report import replay


def main() -> int:
    arguments = _arguments()
    features = frozenset(filter(None, arguments.features.split(","))) if arguments.features else frozenset(FEATURES)
    if unknown := features - {*FEATURES, *DOUBTFUL}:
        sys.exit(f"no such feature: {', '.join(sorted(unknown))}; there are {', '.join((*FEATURES, *DOUBTFUL))}")
    features -= set(filter(None, arguments.without.split(",")))
    first, last = (int(number) for number in arguments.seeds.split(":"))
    folder = Path(arguments.keep or tempfile.mkdtemp(prefix="oracle-fuzz-"))
    differing = 0
    for seed in range(first, last):
        directory = folder / f"case-{seed}"
        shutil.rmtree(directory, ignore_errors=True)
        make_case(seed, directory, features)
        found = check(directory, arguments.cmd)
        if not found:
            shutil.rmtree(directory)
            continue
        differing += 1
        _say(f"seed {seed}: {len(found)} differences")
        for line in found[: arguments.lines]:
            _say(f"    {line}")
    _say(f"{last - first - differing} agree, {differing} differ; kept in {folder}")
    return 1 if differing else 0


def check(directory: Path, command: str) -> list[str]:
    """The differences between the oracle's report of a directory and a command's, both left in the directory."""
    mine = replay(directory)
    (directory / "oracle.json").write_text(json.dumps(mine, indent=1))
    run = subprocess.run(
        [*shlex.split(command), "replay", str(directory), "--json"], capture_output=True, text=True, check=False
    )
    (directory / "other.json").write_text(run.stdout)
    try:
        theirs: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        return [f"exit {run.returncode}: {(run.stderr.strip() or run.stdout.strip())[-600:]}"]
    return differences(mine, theirs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmd", default="gpuledger", help="the command under test; gets `replay DIR --json`")
    parser.add_argument("--seeds", default="0:50", help="FROM:TO, TO not included")
    parser.add_argument("--features", default="", help=f"comma-separated; all by default: {','.join(sorted(FEATURES))}")
    parser.add_argument("--without", default="", help="features to leave out, comma-separated")
    parser.add_argument("--lines", type=int, default=6, help="differences shown for each seed")
    parser.add_argument("--keep", default="", help="folder for the directories that differ (default: a temporary one)")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
