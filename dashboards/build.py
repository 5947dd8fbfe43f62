"""Writes the boards as Grafana's JSON, a folder per audience, and the files by which Grafana loads them.

The same configuration writes the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from dashboards.board import Audience, Board, Context, assemble
from dashboards.boards import BOARDS
from dashboards.finish import as_text, finish
from pipelines.config import Config

DEFAULT_APP: Final = "http://localhost:8501"
DEFAULT_PROMETHEUS: Final = "http://localhost:9090"
_FOLDERS: Final[dict[Audience, str]] = {
    "operators": "GPU operations",
    "tenants": "GPU tenants",
    "management": "GPU money",
}
PROVISIONED: Final = "/var/lib/grafana/dashboards/gpuledger"
"""Where Grafana finds the boards: mount or copy the built ``dashboards`` folder there."""


def build(
    config: Config, out: Path, *, app: str = DEFAULT_APP, prometheus: str = DEFAULT_PROMETHEUS, at: str = PROVISIONED
) -> list[Path]:
    """Write ``dashboards/AUDIENCE/UID.json`` and ``provisioning/`` under ``out``; returns the paths.

    Args:
        app: address of the web app, for links.
        prometheus: address of the Prometheus that Grafana reads.
        at: the folder of the boards on Grafana's machine.

    Raises:
        OSError: a file can't be written.
    """
    context = Context(config, app)
    boards = [make(context) for make in BOARDS]
    texts = {f"dashboards/{b.audience}/{b.uid}.json": as_text(model(b, context)) for b in boards}
    texts["provisioning/dashboards/gpuledger.yml"] = _yaml(_providers(boards, at))
    texts["provisioning/datasources/gpuledger.yml"] = _yaml(_datasources(prometheus))
    paths = []
    for name, text in texts.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def model(board: Board, context: Context) -> dict[str, Any]:
    """One board's JSON model."""
    return finish(assemble(board, context))


def _providers(boards: list[Board], at: str) -> dict[str, Any]:
    audiences = dict.fromkeys(board.audience for board in boards)
    providers = [
        {
            "name": f"gpuledger-{audience}",
            "folder": _FOLDERS[audience],
            "folderUid": f"gpuledger-{audience}",
            "type": "file",
            "disableDeletion": True,
            "allowUiUpdates": False,
            "updateIntervalSeconds": 60,
            "options": {"path": f"{at}/{audience}"},
        }
        for audience in audiences
    ]
    return {"apiVersion": 1, "providers": providers}


def _datasources(prometheus: str) -> dict[str, Any]:
    source = {
        "name": "GPULedger Prometheus",
        "uid": "gpuledger-prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus,
        "jsonData": {"httpMethod": "POST", "timeInterval": "1m"},
    }
    return {"apiVersion": 1, "datasources": [source]}


def _yaml(content: dict[str, Any]) -> str:
    return "# Made by `gpuledger dashboards build`.\n" + yaml.safe_dump(content, sort_keys=False)
