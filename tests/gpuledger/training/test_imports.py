"""A training's environment has prometheus-client and a framework, and nothing else of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]

ALONE = """
import importlib.abc, pkgutil, sys

PRESENT = {"gpuledger", "exporter", "prometheus_client"} | set(sys.stdlib_module_names)

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in PRESENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import gpuledger.training
for module in pkgutil.walk_packages(gpuledger.training.__path__, "gpuledger.training."):
    __import__(module.name)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"pipelines", "polars", "duckdb", "pydantic", "numpy"}))
"""


def test_the_meter_needs_prometheus_client_alone() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[]\n")
