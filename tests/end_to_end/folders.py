"""Folders as a user has them: a configuration and the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

UTIL: Final = (
    'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n1",modelName="NVIDIA H100 80GB HBM3",'
    'namespace="vision-train",pod="train-{gpu}"}}'
)
NOON_MS: Final = 1_791_201_600_000
"""2026-10-05T12:00:00Z"""

_CONFIG: Final = """\
currency: USD
{more}
sources:
{sources}
tenants:
  - {{id: vision, match: [{{namespace: "vision-*"}}, {{slurm_account: "vision"}}]}}
rates:
  - {{model: "*", on_demand: "6.00"}}
"""


def folder_of(folder: Path, *sources: str, more: str = "", **files: bytes | str) -> Path:
    """Write a configuration with these sources, and files (`name__suffix` is name.suffix); return the folder."""
    folder.mkdir(exist_ok=True)
    written = "\n".join(f"  - {{{source}}}" for source in sources)
    (folder / "gpuledger.yaml").write_text(_CONFIG.format(sources=written, more=more))
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def minutes(count: int, *, gpus: int = 1, start: int = 0, utilization: int = 50) -> str:
    """Exposition text: `count` scrapes a minute apart from the `start`-th minute after noon on."""
    return "".join(
        f"{UTIL.format(gpu=gpu)} {utilization} {NOON_MS + 60_000 * (start + minute)}\n"
        for minute in range(count)
        for gpu in range(gpus)
    )
