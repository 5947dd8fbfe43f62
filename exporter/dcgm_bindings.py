"""NVIDIA's Python modules for DCGM: where they are, and whether a host engine listens."""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from exporter.devices import BackendError

BINDINGS: Final = (
    "/usr/share/datacenter-gpu-manager-4/bindings/python3",  # DCGM 4
    "/usr/local/dcgm/bindings/python3",  # DCGM 3
)


@dataclass(frozen=True, slots=True)
class Bindings:
    """NVIDIA's Python modules for DCGM, or objects like them."""

    pydcgm: Any
    structs: Any
    agent: Any
    fields: Any


def load_bindings(paths: Iterable[str] = BINDINGS) -> Bindings:
    """NVIDIA's modules, which no package registry has. Raises BackendError."""
    for path in paths:
        if Path(path).is_dir() and path not in sys.path:
            sys.path.append(path)
    try:
        modules = [importlib.import_module(name) for name in ("pydcgm", "dcgm_structs", "dcgm_agent", "dcgm_fields")]
    except (ImportError, OSError) as error:
        raise BackendError(f"DCGM: no Python bindings ({error}); install datacenter-gpu-manager-4-core") from error
    return Bindings(*modules)


def knock(address: str) -> None:
    """Whether anybody listens; DCGM's own connect takes seconds to give up. Raises BackendError."""
    try:
        if "/" in address:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(0.5)
                client.connect(address)
            return
        host, _, port = address.partition(":")
        socket.create_connection((host, int(port or 5555)), timeout=0.5).close()
    except (OSError, ValueError) as error:
        raise BackendError(f"DCGM at {address}: {error}; start nv-hostengine, or use --backend nvml") from error
