"""Machine code that can't be read or kept is compiled again: no call fails for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import numpy as np
from pipelines.overlap_jit import InLoops
starts, ends = np.array([0, 10]), np.array([5, 20])
print(*InLoops().cut(starts, ends, np.array([3]), np.array([12]))[2])
"""


def run(cache: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)


def test_a_damaged_file_is_passed_over(tmp_path: Path) -> None:
    assert run(tmp_path).stdout == "2.0 2.0\n"
    kept = [path for path in tmp_path.rglob("*.nb?") if path.is_file()]
    assert kept
    for path in kept:  # an index that is cut, and code that isn't any
        path.write_bytes(b"" if "pieces" in path.name or path.suffix == ".nbi" else b"no such thing")
    again = run(tmp_path)
    assert (again.returncode, again.stdout) == (0, "2.0 2.0\n"), again.stderr
