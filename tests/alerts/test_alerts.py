"""Each alert against its histories, and against small wrong changes of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.build import every_alert
from tests.alerts.cases import CASES
from tests.alerts.kinds import EXCUSED, KINDS, kinds_of
from tests.alerts.mutants import mutants
from tests.alerts.promtool import Case, Labels, example, failing, noticed, rule_of

ALERTS = {alert.name: alert for alerts in every_alert(example()).values() for alert in alerts}

pytestmark = pytest.mark.needs_program("promtool")


def histories(name: str) -> list[Case]:
    return [case for case in CASES if case.alert == name]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_does_what_its_histories_say(name: str, tmp_path: Path) -> None:
    assert failing(histories(name), {name: rule_of(name)}, tmp_path) == {}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_the_histories_that_matter(name: str) -> None:
    cases = histories(name)
    shown = set().union(*(kinds_of(case) for case in cases))
    excused = {kind for alert, kind in EXCUSED if alert == name}
    assert set(KINDS) - shown == excused, "a history or a reason is missing, or a reason is no longer needed"
    assert all(case.labels["severity"] == ALERTS[name].severity for case in cases)


def test_an_excuse_is_for_an_alert_that_is_there() -> None:
    assert {alert for alert, _ in EXCUSED} <= ALERTS.keys()


@pytest.mark.parametrize(
    ("series", "firing", "shown"),
    [
        ({"a": "1x9"}, {5: []}, {"doesn't fire"}),
        ({"a": "1x4 stale 1x9"}, {3: [{}], 12: []}, {"fires", "resolves", "missing data"}),
        ({"a": "_x9 1x9"}, {12: [{}]}, {"fires"}),
        ({"a": "_x9"}, {5: []}, {"doesn't fire", "missing data"}),
        ({'a{pod="p",gpu="0"}': "1x9", 'a{pod="q",gpu="0"}': "_x3 1x5"}, {5: []}, {"doesn't fire", "hand-over"}),
        ({'a{pod="p",gpu="0"}': "1x9", 'a{pod="q",gpu="1"}': "_x3 1x5"}, {5: []}, {"doesn't fire"}),
        ({"a": "0+1x9"}, {9: [], 10: []}, {"doesn't fire", "missing data"}),
    ],
)
def test_kinds_are_told_from_samples(series: dict[str, str], firing: dict[int, list[Labels]], shown: set[str]) -> None:
    assert kinds_of(Case("A", "", series, firing)) == shown


@pytest.mark.parametrize("name", ALERTS)
def test_a_small_wrong_change_of_an_alert_is_noticed(name: str, tmp_path: Path) -> None:
    changes = {f"{name}{number}": change for number, change in enumerate(mutants(rule_of(name)))}
    seen = noticed(histories(name), {form: rule for form, (_, rule) in changes.items()}, tmp_path)
    assert [what for form, (what, _) in changes.items() if form not in seen] == []
