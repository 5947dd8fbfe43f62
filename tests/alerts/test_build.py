"""What `alerts build` writes: valid, the same each time, whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from alerts.build import ALERTS_FILE, RECORDING_FILE, ROUTES_FILE, build, every_alert, rules_text
from alerts.check import check
from alerts.links import Links
from alerts.recording import recording
from alerts.stock import Stock, read_stock
from exporter.errors import ConfigError, SourceError, UsageError
from pipelines.config import load
from pipelines.promql.recorded import RECORDED
from tests.alerts.promtool import EXAMPLE, example

USES_A_LABEL_THAT_IS_NOT_THERE = """{alert: A, expr: sum by (node) (device:busy:ratio),
    labels: {severity: info, audience: platform},
    annotations: {summary: 'on {{ $labels.gpu }}', description: d, runbook_url: u}}"""
RUNBOOK_HEADINGS = ["Meaning", "Impact", "First three commands", "Mend", "When to call the vendor"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    build(example(), out)
    return out


@pytest.mark.needs_program("promtool")
def test_promtool_accepts_the_rules(built: Path) -> None:
    files = [built / RECORDING_FILE, built / ALERTS_FILE]
    done = subprocess.run(
        ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_our_lint_finds_nothing(built: Path) -> None:
    assert check([built]) == []


def test_the_committed_files_are_what_is_built_now(built: Path) -> None:
    committed = EXAMPLE.parent
    for name in (RECORDING_FILE, ALERTS_FILE, ROUTES_FILE):
        assert (committed / name).read_text() == (built / name).read_text(), (
            f"{name} is stale: gpuledger alerts build --config {EXAMPLE.name} --out {committed.name}"
        )


def test_building_twice_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    for path in build(load(EXAMPLE), tmp_path):
        assert path.read_bytes() == (built / path.relative_to(tmp_path)).read_bytes()


def test_every_recorded_series_has_a_rule_and_every_rule_a_recorded_series() -> None:
    config = example()
    made = {rule["record"] for group in recording(config, read_stock(config)) for rule in group.rules}
    assert made == set(RECORDED)


def test_a_configuration_of_nothing_but_a_currency_makes_valid_rules(tmp_path: Path) -> None:
    path = tmp_path / "gpuledger.yaml"
    path.write_text("currency: EUR\n")
    out = tmp_path / "out"
    build(load(path), out)
    assert check([out]) == []
    if subprocess.run(["which", "promtool"], capture_output=True, check=False).returncode == 0:
        done = subprocess.run(
            ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *out.glob("*.rules.yml")], check=False
        )
        assert done.returncode == 0


def test_links_are_added_by_code() -> None:
    config = example()
    links = Links(grafana="https://g.example/", runbooks="https://r.example/books")
    from alerts.build import alert_groups

    for group in alert_groups(config, links):
        for rule in group.rules:
            notes = rule["annotations"]
            assert notes["runbook_url"] == f"https://r.example/books/{rule['alert']}.md"
            assert notes["dashboard_url"].startswith("https://g.example/d/gpuledger-")
            assert notes["summary"]
            assert notes["description"].endswith((".", "?"))


def test_from_which_amounts_alerts_speak_is_configured(tmp_path: Path) -> None:
    path = tmp_path / "gpuledger.yaml"
    path.write_text(EXAMPLE.read_text().replace("sources:", "alerts: {idle_per_hour: '25.50'}\nsources:"))
    (tmp_path / "inventory.csv").write_text("node\n")
    config = load(path)
    bounds = {alert.name: alert.expr.rpartition(" > ")[2].split()[0] for alert in every_alert(config)["waste"]}
    assert bounds == {"TenantGpusIdle": "25.5", "FleetGpusFree": "50", "ReservationUnused": "0.5"}
    assert config.config_hash == example().config_hash, "what alerts say books nothing"
    path.write_text("currency: EUR\nalerts: {reservation_unused: '1'}\n")
    with pytest.raises(ConfigError, match=r"gpuledger.yaml:2.*reservation_unused: no reservation is more than"):
        load(path)


def test_every_alert_names_a_board_that_is_built(repository: Path) -> None:
    boards = {path.stem for path in (repository / "dashboards" / "example").rglob("gpuledger-*.json")}
    named = {alert.dashboard for alerts in every_alert(example()).values() for alert in alerts}
    assert named <= boards


def test_every_alert_has_a_runbook_of_five_parts(repository: Path) -> None:
    pages = {page.stem: page.read_text() for page in (repository / "alerts" / "runbooks").glob("*.md")}
    names = {alert.name for alerts in every_alert(example()).values() for alert in alerts}
    assert set(pages) == names
    for name, text in pages.items():
        assert text.startswith(f"# {name}\n")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == RUNBOOK_HEADINGS
        commands = text.partition("```sh\n")[2].partition("```")[0].strip().splitlines()
        assert len(commands) == 3, name


def test_the_inventory_tells_slots_racks_and_power() -> None:
    stock = read_stock(example())
    assert stock == Stock(
        slots={"GPU-7474bb2e-0000-4000-8000-000000000001": 4},
        racks={"h100-1": "r1", "h100-2": "r1", "a100-1": "r2", "t4-1": "r2"},
        power_watts={"h100-1": 5600, "h100-2": 5600, "a100-1": 1600, "t4-1": 70},
        expected={"h100-1": 8, "h100-2": 8, "a100-1": 4, "t4-1": 1},
    )


def test_a_number_that_is_none_is_named_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "inventory.csv").write_text("node,gpus,power_watts\nn1,8,seven\n")
    (tmp_path / "gpuledger.yaml").write_text("currency: USD\nsources: [{inventory: inventory.csv}]\n")
    with pytest.raises(SourceError, match=r"inventory.csv:2: 'seven' is no whole number"):
        read_stock(load(tmp_path / "gpuledger.yaml"))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{record: a:b:c, expr: sum by (rack) (device:busy:ratio)}", "groups by rack, a label that isn't there"),
        ("{record: a:b:c, expr: gpuledger_powr_watts}", "reads gpuledger_powr_watts"),
        ("{record: a:b:c, expr: gpuledger_power_watts}", "keeps container"),
        ("{record: a:b:c, expr: 'sum(rate(gpuledger_energy_joules_total[2m]))'}", "sees fewer than 4 scrapes"),
        ("{record: a:b:c, expr: device:busy:ratio / on (node) node:power:watts}", "a side that has one series per"),
        ("{record: a:b:c, expr: sum(}", "is no PromQL"),
        ("{alert: A, expr: device:busy:ratio > 2}", "has no label severity"),
        (USES_A_LABEL_THAT_IS_NOT_THERE, "uses $labels.gpu, which its expression doesn't have"),
    ],
)
def test_rules_that_users_add_are_linted(rule: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "my.rules.yml").write_text(f"groups: [{{name: g, rules: [{rule}]}}]")
    assert any(said in str(fault) for fault in check([tmp_path])), [str(f) for f in check([tmp_path])]


@pytest.mark.parametrize("text", ["", "groups: 3", "- a", "groups: [{name: g}]", "{"])
def test_a_file_that_holds_no_rules_is_one_clear_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "my.rules.yml").write_text(text)
    with pytest.raises(UsageError, match=r"my\.rules\.yml: no rule file"):
        check([tmp_path])


def test_nothing_to_check_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \*\.rules\.yml there"):
        check([tmp_path])


def test_rule_text_says_what_made_it() -> None:
    assert rules_text([]).startswith("# Made by `gpuledger alerts build`")
