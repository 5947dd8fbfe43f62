"""Python interpreters that have a framework: this one, Debian's, or the one that the environment names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

NAMED_BY: Final = "GPULEDGER_TRAINING_PYTHON"


def with_modules(*modules: str, install: str) -> str:
    """An interpreter that has all of some modules; the test is skipped, with what installs them, where none has."""
    has = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in {list(modules)!r}))"
    for python in (os.environ.get(NAMED_BY), sys.executable, "/usr/bin/python3"):
        if python and Path(python).exists() and subprocess.run([python, "-c", has], check=False).returncode == 0:
            return python
    pytest.skip(f"no Python here has {' and '.join(modules)}: {install}; {NAMED_BY} may name one that has")
