"""Which job, rank, pod and GPU a process is, from what launchers leave in its environment."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

RANK: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK")
LOCAL_RANK: Final = (
    "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "MPI_LOCALRANKID",
)  # fmt: skip
WORLD_SIZE: Final = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE")
"""torchrun's names come first: it may run under Slurm with one task per node."""

POD: Final = ("POD_NAME", "MY_POD_NAME")
NAMESPACE: Final = ("POD_NAMESPACE", "MY_POD_NAMESPACE")
NODE: Final = ("NODE_NAME", "MY_NODE_NAME", "SLURMD_NODENAME")
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]+\Z")


def identity(
    environ: Mapping[str, str], *, run: str | None = None, namespace_file: Path = SERVICE_ACCOUNT
) -> dict[str, str]:
    """Return the labels that say who this process is; what isn't known has no label.

    ``hpc_job`` is Slurm's raw job id, as the exporter labels GPUs with it.

    Args:
        run: name of the run; None: Slurm's name of the job.
    """
    in_kubernetes = "KUBERNETES_SERVICE_HOST" in environ
    pod = _first(environ, POD) or (environ.get("HOSTNAME") if in_kubernetes else None)
    found = {
        "run": run or environ.get("SLURM_JOB_NAME"),
        "rank": _first(environ, RANK) or "0",
        "hpc_job": environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID"),
        "namespace": _first(environ, NAMESPACE) or (_written(namespace_file) if in_kubernetes else None),
        "pod": pod,
        "node": _first(environ, NODE) or (None if in_kubernetes else socket.gethostname()),
        "uuid": visible_gpu(environ),
    }
    return {name: value for name, value in found.items() if value}


def local_rank(environ: Mapping[str, str]) -> int:
    """Return which of its node's processes this is, from 0."""
    return _whole(_first(environ, LOCAL_RANK)) or 0


def world_size(environ: Mapping[str, str]) -> int | None:
    """Return how many ranks the job has; None: nobody says."""
    return _whole(_first(environ, WORLD_SIZE))


def visible_gpu(environ: Mapping[str, str]) -> str | None:
    """Return the UUID of the process's GPU where the environment names one GPU, and by UUID."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        devices = [device.strip() for device in environ.get(name, "").split(",") if device.strip()]
        uuids = [device for device in devices if _UUID.match(device)]
        if uuids and len(uuids) == len(devices):
            if len(uuids) == 1:
                return uuids[0]
            at = local_rank(environ)
            return uuids[at] if at < len(uuids) else None
    return None


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _written(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None
