"""What the boards are made of: right for Grafana, the same each time, linked to each other."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.build import build
from dashboards.check import check
from exporter.errors import UsageError
from tests.alerts.promtool import example

COMMITTED = Path(__file__).resolve().parents[2] / "dashboards" / "example"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("boards")
    build(example(), out)
    return out


@pytest.fixture(scope="module")
def boards(built: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in built.rglob("*.json")}


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (panel for panel in board["panels"] if panel["type"] != "row")


def test_the_committed_files_are_what_is_built_now(built: Path) -> None:
    made = {path.relative_to(built): path.read_bytes() for path in built.rglob("*") if path.is_file()}
    kept = {path.relative_to(COMMITTED): path.read_bytes() for path in COMMITTED.rglob("*") if path.is_file()}
    assert made.keys() == kept.keys()
    assert [str(name) for name in made if made[name] != kept[name]] == []


def test_our_lint_finds_nothing(built: Path) -> None:
    assert check([built]) == []


def test_every_panel_says_what_it_shows_in_which_unit_and_what_unknown_looks_like(
    boards: dict[str, dict[str, Any]],
) -> None:
    for board in boards.values():
        for panel in panels(board):
            defaults = panel["fieldConfig"]["defaults"]
            assert panel["description"].endswith((".", ":")), panel["title"]
            assert defaults["unit"]
            assert defaults["noValue"] == "n/a"
            assert defaults["thresholds"]["steps"][0]["value"] is None
            assert panel["targets"]


def test_nothing_is_left_of_what_grafanalib_gets_wrong(boards: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(boards)
    for wrong in ('"null"', "maxDataPoints", "intervalFactor", '"step":', "sharedCrosshair", '"rows":', "__inputs"):
        assert wrong not in text.replace('"step": "60s"', "").replace('"match": "null"', ""), wrong
    for board in boards.values():
        assert board["schemaVersion"] == 42
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_what_is_unknown_has_no_threshold_s_colour(boards: dict[str, dict[str, Any]]) -> None:
    grey = {"text": "n/a", "color": "text"}
    for board in boards.values():
        for panel in panels(board):
            fields = [panel["fieldConfig"]["defaults"]] if panel["type"] == "stat" else []
            for override in panel["fieldConfig"]["overrides"]:
                properties = {p["id"]: p["value"] for p in override["properties"]}
                fields += [properties] if "thresholds" in properties else []
            assert all(f["mappings"][0]["options"] == {"match": "null", "result": grey} for f in fields), panel["title"]


def test_a_narrow_panel_leaves_its_room_to_its_lines(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        for panel in panels(board):
            if panel["type"] == "timeseries":
                beside = panel["options"]["legend"]["placement"] == "right"
                assert beside == (panel["gridPos"]["w"] >= 12), panel["title"]


def test_panels_don_t_overlap_and_fill_the_width(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        cells: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not mine & cells, panel["title"]
            assert at["x"] + at["w"] <= 24
            cells |= mine
        height = max(y for _, y in cells) + 1
        assert len(cells) == 24 * height, board["uid"]


def test_links_lead_to_boards_that_are_there_and_keep_time_and_source(boards: dict[str, dict[str, Any]]) -> None:
    urls = re.findall(r'"url": "(/d/[^"]+)"', json.dumps(boards))
    assert len(urls) >= 10
    for url in urls:
        target = re.match(r"/d/([a-z-]+)\?", url)
        assert target
        board = boards[target[1]]
        assert "${__url_time_range}" in url
        assert "${datasource:queryparam}" in url
        names = {variable["name"] for variable in board["templating"]["list"]}
        assert set(re.findall(r"var-([a-z]+)=", url)) <= names


def test_every_board_links_to_the_app_with_the_same_time_and_tenant(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        (app,) = [link["url"] for link in board["links"] if link["type"] == "link"]
        names = {variable["name"] for variable in board["templating"]["list"]}
        assert "from=${__from}&to=${__to}" in app
        assert ("&tenant=${tenant:percentencode}" in app) == ("tenant" in names)


def test_every_board_has_a_data_source_variable_and_alert_annotations(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        assert board["templating"]["list"][0]["type"] == "datasource"
        assert board["annotations"]["list"][0]["expr"].startswith("ALERTS{")


def test_provisioning_has_a_folder_per_audience(built: Path) -> None:
    providers = yaml.safe_load((built / "provisioning/dashboards/gpuledger.yml").read_text())["providers"]
    audiences = {path.name for path in (built / "dashboards").iterdir()}
    assert {Path(p["options"]["path"]).name for p in providers} == audiences
    assert len({p["folder"] for p in providers}) == len(providers)


def test_the_foundation_sdk_reads_every_board_and_drops_no_key(boards: dict[str, dict[str, Any]]) -> None:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        # It would rather have boards of Grafana's coming schema, which 11 and 12 don't read.
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.models.dashboard import Dashboard
    for uid, board in boards.items():
        again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
        assert sorted(dropped(board, again)) == [], uid


def dropped(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Paths of keys that a round trip lost; None and empty say nothing, so they may go."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                if value not in (None, [], {}):
                    yield f"{where}.{key}"
            else:
                yield from dropped(value, after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from dropped(one, other, f"{where}[{place}]")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"uid": ""}, "has no uid"),
        ({"panels": [{"type": "graph", "title": "p"}]}, "Angular"),
        ({"panels": [{"type": "stat", "title": "p", "fieldConfig": {"defaults": {}}}]}, "has no unit"),
        ({"panels": [{"type": "stat", "title": "p", "datasource": "Prometheus"}]}, "names its data source outright"),
        ({"panels": [{"type": "stat", "title": "p", "targets": [{"refId": "A", "expr": "nope"}]}]}, "reads nope"),
        (
            {"panels": [{"type": "stat", "fieldConfig": {"defaults": {"thresholds": {"steps": [{"value": 0}]}}}}]},
            "base threshold",
        ),
    ],
)
def test_boards_that_users_add_are_linted(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    board = {"uid": "mine", "panels": [], "templating": {"list": []}} | change
    (tmp_path / "mine.json").write_text(json.dumps(board))
    assert any(said in str(fault) for fault in check([tmp_path]))


def test_two_boards_of_one_uid_are_found(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"uid": "same", "panels": []}))
    assert "has the uid of" in str(check([tmp_path])[0])


@pytest.mark.parametrize("text", ["", "[]", '{"panels": 3}'])
def test_a_file_that_is_no_board_is_one_clear_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageError, match=r"x\.json: no "):
        check([tmp_path])
