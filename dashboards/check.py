"""Lints dashboards: ours, and what users add beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from exporter.errors import UsageError
from pipelines.promql.lint import Fault, lint

_ANGULAR: Final = {"graph", "singlestat", "grafana-piechart-panel", "grafana-worldmap-panel", "table-old"}
_FREE_OF_QUERIES: Final = {"row", "text", "dashlist", "news"}


def check(paths: Sequence[Path]) -> list[Fault]:
    """What is wrong in dashboard files, or in the ``*.json`` of folders.

    Raises:
        UsageError: there is nothing to check, or a file is no dashboard.
    """
    files = [file for path in paths for file in (sorted(path.rglob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise UsageError(f"{', '.join(map(str, paths))}: no *.json there; name the files, or build some first")
    faults = []
    uids: dict[str, Path] = {}
    for file in files:
        board = _read(file)
        faults += list(faults_of(board, str(file)))
        other = uids.setdefault(str(board.get("uid")), file)
        if other != file:
            faults.append(Fault(str(file), f"has the uid of {other}: Grafana keeps only one of them"))
    return faults


def _read(file: Path) -> dict[str, Any]:
    try:
        board = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: no JSON ({error}); expected a dashboard as Grafana exports it") from error
    if not isinstance(board, dict) or not isinstance(board.get("panels"), list):
        raise UsageError(f"{file}: no dashboard; expected one as Grafana exports it, with `panels`")
    return board


def faults_of(board: dict[str, Any], where: str) -> Iterator[Fault]:
    """The faults of one dashboard."""
    if not board.get("uid"):
        yield Fault(where, "has no uid: links to it break with each import")
    for variable in board.get("templating", {}).get("list", []):
        if variable.get("type") == "query":
            yield from _datasource(variable, f"{where}: variable {variable.get('name')}")
    for panel in _panels(board["panels"]):
        yield from _panel_faults(panel, f"{where}: {panel.get('title') or panel.get('id')}")


def _panels(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        yield panel
        yield from _panels(panel.get("panels") or [])


def _panel_faults(panel: dict[str, Any], where: str) -> Iterator[Fault]:
    kind = panel.get("type")
    if kind in _FREE_OF_QUERIES:
        return
    if kind in _ANGULAR:
        yield Fault(where, f"is an Angular panel ({kind}), which Grafana 12 no longer shows")
    if not panel.get("description"):
        yield Fault(where, "has no description: say what it shows and when to worry")
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    if not defaults.get("unit"):
        yield Fault(where, "has no unit")
    steps = defaults.get("thresholds", {}).get("steps") or []
    if steps and steps[0].get("value") is not None:
        yield Fault(where, "has a base threshold with a value; it must be null, or colours are wrong")
    yield from _datasource(panel, where)
    for target in panel.get("targets", []):
        yield from _datasource(target, f"{where}: query {target.get('refId')}")
        yield from lint(target.get("expr", ""), f"{where}: query {target.get('refId')}", stable=False)


def _datasource(holder: dict[str, Any], where: str) -> Iterator[Fault]:
    source = holder.get("datasource")
    if not (isinstance(source, dict) and str(source.get("uid", "")).startswith("$")):
        yield Fault(where, 'names its data source outright; use {"type": "prometheus", "uid": "${datasource}"}')
