"""Who a process is, by what launchers leave in its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.training.identity import identity, local_rank, visible_gpu, world_size

NOWHERE = Path("/nonexistent")


@pytest.mark.parametrize(
    ("environ", "rank", "local", "world"),
    [
        ({}, "0", 0, None),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}, "5", 1, 16),
        ({"RANK": "9", "LOCAL_RANK": "1", "WORLD_SIZE": "16", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, "9", 1, 16),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, "2", 2, 4),
        ({"HOROVOD_RANK": "7", "HOROVOD_LOCAL_RANK": "3", "HOROVOD_SIZE": "8"}, "7", 3, 8),
        ({"RANK": "", "LOCAL_RANK": "x"}, "0", 0, None),
    ],
)
def test_launchers(environ: dict[str, str], rank: str, local: int, world: int | None) -> None:
    assert (identity(environ)["rank"], local_rank(environ), world_size(environ)) == (rank, local, world)


def test_a_pod_is_known_by_the_downward_api_or_by_what_every_pod_has(tmp_path: Path) -> None:
    told = {"POD_NAMESPACE": "nlp", "POD_NAME": "train-0", "NODE_NAME": "gpu-1"}
    assert identity(told) == {"rank": "0", "namespace": "nlp", "pod": "train-0", "node": "gpu-1"}
    mounted = tmp_path / "namespace"
    mounted.write_text("nlp\n")
    plain = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-0"}
    assert identity(plain, namespace_file=mounted) == {"rank": "0", "namespace": "nlp", "pod": "train-0"}
    assert "namespace" not in identity(plain, namespace_file=NOWHERE)


def test_slurm_names_the_job_and_the_run() -> None:
    found = identity({"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "bert", "SLURMD_NODENAME": "n3"})
    assert found == {"run": "bert", "rank": "0", "hpc_job": "77", "node": "n3"}
    assert identity({"SLURM_JOB_NAME": "bert"}, run="mine")["run"] == "mine"


@pytest.mark.parametrize(
    ("environ", "gpu"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa-1"}, "GPU-aa-1"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa-1,GPU-bb-2", "LOCAL_RANK": "1"}, "GPU-bb-2"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa-1,GPU-bb-2", "LOCAL_RANK": "2"}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "GPU-aa-1"}, "GPU-aa-1"),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, None),
        ({}, None),
    ],
)
def test_a_gpu_is_named_only_where_the_environment_names_it(environ: dict[str, str], gpu: str | None) -> None:
    assert visible_gpu(environ) == gpu
