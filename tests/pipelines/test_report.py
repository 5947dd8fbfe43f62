"""The report as JSON: valid by its published schema, which is made from the model."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from pipelines.report import json_schema
from tests.pipelines.scene import Job, Scene, seen
from tests.pipelines.stages import run

SCENE: Final = Scene([seen("GPU-a", (0, 30.5), "astro/fit"), seen("GPU-b", (0, 5))], jobs=[Job("7", (0, 60))])

Report = dict[str, Any]


@pytest.fixture(scope="module")
def schema(repository: Path) -> Report:
    found: Report = json.loads((repository / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(SCENE.write(tmp_path_factory.mktemp("scene"))).report()


def test_the_schema_is_the_models(schema: Report) -> None:
    assert schema == json_schema(), "run scripts/document"


def test_the_schema_is_one(schema: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_report_is_valid(report: Report, schema: Report) -> None:
    jsonschema.validate(report, schema)


SPOILS: Final[dict[str, Callable[[Report], object]]] = {
    "money that is a number": lambda r: r["fleet"].update(cost=1.5),
    "money with a currency": lambda r: r["tenants"][0]["charges"].update(total="USD 1.50"),
    "hours that are text": lambda r: r["fleet"].update(idle_gpu_hours="1"),
    "hours that are unknown": lambda r: r["fleet"].update(idle_gpu_hours=None),
    "a key less": lambda r: r["fleet"].pop("unbilled"),
    "a key more": lambda r: r["fleet"].update(margin="1.00"),
    "a time that isn't in UTC": lambda r: r["period"].update({"from": "2026-03-02T09:00:00+01:00"}),
    "a negative ratio": lambda r: r["tenants"][0].update(coverage=-0.1),
    "a finding that was found no time": lambda r: r["findings"].append({"code": "gap", "count": 0, "detail": "x"}),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_what_the_contract_rules_out_is_invalid(
    spoil: Callable[[Report], object], report: Report, schema: Report
) -> None:
    spoiled = copy.deepcopy(report)
    spoil(spoiled)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoiled, schema)


def test_times_end_in_z_and_say_milliseconds_only_where_there_are_any(report: Report) -> None:
    assert report["period"]["from"] == "2026-03-02T09:00:00Z"
    (fit,) = (w for t in report["tenants"] for w in t["workloads"] if w["workload"] == "astro/fit")
    assert fit["end"] == "2026-03-02T09:31:00Z"
