"""A real loop: DistributedDataParallel, two processes over gloo, loaders with workers."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.gpuledger.training.interpreters import with_modules

HERE = Path(__file__).resolve()
REPOSITORY = HERE.parents[3]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def test_two_ranks_count_their_steps_waits_and_collectives(tmp_path: Path) -> None:
    install = "apt-get install python3-torch python3-prometheus-client"
    python = with_modules("torch", "prometheus_client", install=install)
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
               "WORLD_SIZE": "2", "SLURM_JOB_ID": "4711", "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip
    ranks = [
        subprocess.Popen(
            [python, str(HERE.with_name("ddp_loop.py")), str(tmp_path)],
            env={**environ, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    for rank in range(2):
        text = (tmp_path / f"gpuledger-training-4711-{rank}.prom").read_text()
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        found = {s.name.removeprefix("gpuledger_training_"): s.value for s in samples}
        assert {(s.labels["rank"], s.labels["hpc_job"], s.labels["run"]) for s in samples} == {
            (str(rank), "4711", "ddp")
        }
        assert found["steps_total"] == 6
        assert found["samples_total"] == 48
        assert found["epochs_total"] == 2
        assert found["world_size"] == 2
        assert found["floating_point_operations_total"] == 48 * 6 * 17_000
        # The first batch of each epoch is waited for whole; later ones may be there already where computing is slow.
        assert found["data_wait_seconds_total"] >= 2 * 8 * 0.005
        assert found["communication_seconds_total"] > 0
        assert found["step_seconds_total"] > 0
