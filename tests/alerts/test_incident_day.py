"""A labelled incident day, replayed: the exact alerts at the exact times, and nothing else."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from alerts.build import ALERTS_FILE, RECORDING_FILE, build, every_alert
from tests.alerts.incidents import DAY, INCIDENTS, Incident, series
from tests.alerts.promtool import example

_SAMPLE = re.compile(r"(\{.*?\}) ([0-9.E+]+)")
ALERTS = {alert.name: alert for alerts in every_alert(example()).values() for alert in alerts}


def firing(incident: Incident) -> str:
    alert = ALERTS[incident.alert]
    labels = {
        "alertname": alert.name, "alertstate": "firing", "severity": alert.severity, "audience": alert.audience,
        **incident.labels,
    }  # fmt: skip
    inside = ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
    return f"ALERTS{{{inside}}}"


def at(minute: int) -> list[str]:
    return [firing(incident) for incident in INCIDENTS if incident.fires[0] <= minute <= incident.fires[1]]


def check(minute: int) -> dict[str, object]:
    return {
        "expr": 'ALERTS{alertstate="firing"}',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": labels, "value": 1} for labels in at(minute)],
    }


@pytest.mark.needs_program("promtool")
def test_an_incident_day_raises_the_labelled_alerts_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(example(), tmp_path)
    # One group: alerts see what was recorded at the same minute.
    rules = [rule for name in (RECORDING_FILE, ALERTS_FILE) for group in yaml.safe_load((tmp_path / name).read_text())[
        "groups"] for rule in group["rules"]]  # fmt: skip
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "day", "interval": "1m", "rules": rules}]}))
    edges = sorted({m for i in INCIDENTS for m in (i.fires[0] - 1, i.fires[0], i.fires[1], i.fires[1] + 1)})
    labelled = Counter[str]()
    for incident in INCIDENTS:
        labelled[firing(incident).removeprefix("ALERTS")] += incident.fires[1] - incident.fires[0] + 1
    # Nothing is expected of the whole day, so that promtool says what there was: minutes of each alert.
    whole_day = {
        "expr": f'count_over_time(ALERTS{{alertstate="firing"}}[{DAY}m])', "eval_time": f"{DAY}m", "exp_samples": [],
    }  # fmt: skip
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series().items()],
        "promql_expr_test": [*(check(minute) for minute in edges), whole_day],
    }
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "day.yml").write_text(yaml.safe_dump(content, width=100_000))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "day.yml")], capture_output=True, text=True, check=False
    )
    moments, _, day = (done.stdout + done.stderr).partition('expr: "count_over_time(')
    raised = Counter({name: int(float(count)) for name, count in _SAMPLE.findall(day.partition("got:")[2])})
    right = (raised & labelled).total()
    with capsys.disabled():
        print(  # noqa: T201
            f" {len(INCIDENTS)} incidents, {labelled.total()} minutes of alerts:"
            f" precision {right / max(raised.total(), 1):.2%}, recall {right / labelled.total():.2%}",
            end=" ",
        )
    assert raised == labelled
    assert "expr: " not in moments, moments
