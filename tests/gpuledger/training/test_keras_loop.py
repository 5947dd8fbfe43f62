"""A real loop: Keras's ``fit``."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.gpuledger.training.interpreters import with_modules

HERE = Path(__file__).resolve()


def test_fit_counts_steps_and_epochs_and_no_wait(tmp_path: Path) -> None:
    python = with_modules("keras", "jax", "prometheus_client", install="pip install keras jax prometheus-client")
    environ = {**os.environ, "PYTHONPATH": str(HERE.parents[3]), "SLURM_JOB_ID": "4711", "RANK": "0"}
    subprocess.run([python, str(HERE.with_name("keras_loop.py")), str(tmp_path)], env=environ, check=True, timeout=300)
    text = (tmp_path / "gpuledger-training-4711-0.prom").read_text()
    found = {line.partition("{")[0]: line.rpartition(" ")[2] for line in text.splitlines() if line[:1] != "#"}
    assert found["gpuledger_training_steps_total"] == "8.0"
    assert found["gpuledger_training_samples_total"] == "128.0"
    assert found["gpuledger_training_epochs_total"] == "2.0"
    assert float(found["gpuledger_training_step_seconds_total"]) > 0
    assert "gpuledger_training_data_wait_seconds_total" not in found
