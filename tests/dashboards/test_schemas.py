"""Boards against the JSON Schemas that are made from Grafana's own types (`make test-grafana`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SCHEMAS: Final = sorted((REPOSITORY / ".venv" / "grafana-schemas").glob("schema-*.json"))
BOARDS: Final = sorted((REPOSITORY / "dashboards" / "example" / "dashboards").rglob("*.json"))

if not SCHEMAS:
    pytest.skip("no JSON Schemas of Grafana's types: make test-grafana", allow_module_level=True)

# Keys that Grafana's Prometheus plugin reads from an annotation. Its general type lists none of any plugin.
PLUGIN_KEYS: Final = ("expr", "step", "tagKeys", "textFormat", "titleFormat")


@pytest.fixture(params=SCHEMAS, ids=lambda path: path.stem)
def validator(request: pytest.FixtureRequest) -> Any:
    return jsonschema.Draft7Validator(json.loads(request.param.read_text()))


def test_boards_are_valid_in_every_major(validator: Any) -> None:
    assert BOARDS
    for path in BOARDS:
        board = json.loads(path.read_text())
        for annotation in board["annotations"]["list"]:
            for key in PLUGIN_KEYS:
                annotation.pop(key, None)
        faults = [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(board)]
        assert faults == [], path.name


def test_what_grafana_does_not_know_is_found(validator: Any) -> None:
    board = json.loads(BOARDS[0].read_text()) | {"sharedCrosshair": False}
    assert any("sharedCrosshair" in error.message for error in validator.iter_errors(board))
