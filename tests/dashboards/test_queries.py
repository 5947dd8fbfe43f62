"""Every query of every board on a real Prometheus that holds two days of a simulated fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from dashboards.board import Board, Context
from dashboards.boards import BOARDS
from dashboards.build import model
from pipelines.promql.lint import lint
from tests.alerts.fleet import INTERVAL, MOST_SAMPLES, NOON, Fleet
from tests.dashboards.queries import ALL, asked, escaped, expressions, filled, variables

# A rate sees four scrapes of the simulated fleet, and one to spare.
MINUTES: Final = 5 * INTERVAL // 60
MOST_VALUES: Final = 5

NO_ERRORS = "no simulated card has such an error at that time"
NO_CONDITION = "no simulated card is slowed or hot at that time"
SERVER_ITSELF = "Prometheus doesn't scrape itself in this test"
NOT_MEASURED = "dcgm-exporter doesn't show it in its default counters, and the simulated one doesn't either"
OURS_ALONE = "only our exporter says this of itself"
PIPELINE = "the pipeline's own metrics are not there beside dcgm-exporter's"

MAY_BE_EMPTY: Final[dict[str, dict[str, str]]] = {
    "ours": {
        "gpuledger-node: Conditions A": NO_CONDITION,
        "gpuledger-health: XIDs by node A": NO_ERRORS,
        "gpuledger-health: Uncorrected ECC errors A": NO_ERRORS,
        "gpuledger-health: NVLink recoveries A": NO_ERRORS,
        "gpuledger-health: Slowed or hot A": NO_CONDITION,
        "gpuledger-health: Recent XIDs A": NO_ERRORS,
        "gpuledger-health: Cards A": NO_ERRORS,
        "gpuledger-energy: Slowed or hot A": NO_CONDITION,
        "gpuledger-capacity: Models E": "shown only for a model whose free cards grow fewer",
        "gpuledger-stack: Scrape duration A": SERVER_ITSELF,
        "gpuledger-stack: Rule evaluation A": SERVER_ITSELF,
        "gpuledger-stack: Rule evaluation B": SERVER_ITSELF,
        "gpuledger-stack: Series in Prometheus A": SERVER_ITSELF,
        "gpuledger-tenant: Quota A": "no tenant with a quota holds anything at that time",
    },
}
MAY_BE_EMPTY["dcgm"] = MAY_BE_EMPTY["ours"] | {
    "gpuledger-health: Recovery asked for A": NOT_MEASURED,
    "gpuledger-health: Remap failed A": NOT_MEASURED,
    "gpuledger-health: Remap pending A": NOT_MEASURED,
    "gpuledger-health: Cards B": NOT_MEASURED,
    "gpuledger-health: Cards C": NOT_MEASURED,
    "gpuledger-health: Cards D": NOT_MEASURED,
    "gpuledger-node: Power of limit A": NOT_MEASURED,
    "gpuledger-energy: Nodes B": NOT_MEASURED,
    "gpuledger-energy: Nodes E": NOT_MEASURED,
    "gpuledger-energy: Below slowdown A": NOT_MEASURED,
    "gpuledger-stack: Ledger behind A": PIPELINE,
    "gpuledger-stack: Failed passes A": PIPELINE,
    "gpuledger-stack: Age of values A": OURS_ALONE,
    "gpuledger-stack: Time of a pass A": OURS_ALONE,
    "gpuledger-stack: Rejected values A": OURS_ALONE,
    "gpuledger-stack: Owner sources A": OURS_ALONE,
    "gpuledger-stack: Unresolved devices A": OURS_ALONE,
    "gpuledger-stack: Passes an hour A": PIPELINE,
    "gpuledger-stack: Time of a pass of the pipeline A": PIPELINE,
    "gpuledger-stack: Sources behind A": PIPELINE,
    "gpuledger-stack: Taken in an hour A": PIPELINE,
    "gpuledger-stack: Findings in an hour A": PIPELINE,
    **{f"gpuledger-capacity: Models in the ledger {query}": PIPELINE for query in "ABCDEFG"},
    "gpuledger-capacity: Nodes in trouble A": PIPELINE,
    **{f"gpuledger-capacity: Reservations, two weeks ahead {query}": PIPELINE for query in "ABCD"},
}


@pytest.fixture(params=BOARDS, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Callable[[Context], Board]:
    made: Callable[[Context], Board] = request.param
    return made


class Asker:
    """Asks a board's queries at noon of the second day."""

    def __init__(self, fleet: Fleet, board: Mapping[str, Any]) -> None:
        self._server, self._at = fleet.server, fleet.span.start + NOON
        self.board = board
        self.everything = dict.fromkeys(variables(board), ALL)
        self.values = {name: sorted(self._found(query)) for name, query in variables(board).items()}
        # Of a variable without All, Grafana takes the first value.
        for name in variables(board):
            if not next(v for v in board["templating"]["list"] if v["name"] == name).get("includeAll"):
                self.everything[name] = escaped(self.values[name][0])

    def _found(self, query: str) -> set[str]:
        expression, label = asked(query)
        every = dict.fromkeys(variables(self.board), ALL)
        rows = self._server.query(filled(expression, every, minutes=MINUTES), self._at)
        return {row["metric"].get(label, "") for row in rows} - {"", "/"}

    def answers(self, **values: str) -> Iterator[tuple[str, int]]:
        """Each panel query and how many series it gives."""
        for where, expression in expressions(self.board):
            query = filled(expression, self.everything | values, minutes=MINUTES)
            yield where, len(self._server.query(query, self._at))

    def annotation(self) -> None:
        """The annotation query runs, whatever it finds."""
        for entry in self.board["annotations"]["list"]:
            self._server.query(entry["expr"], self._at)


def test_the_fleet_is_small_enough_and_recording_adds_little_time(fleet: Fleet) -> None:
    assert fleet.raw <= MOST_SAMPLES
    assert fleet.recorded > 0


def test_every_query_answers_with_all_and_with_each_value(make: Callable[[Context], Board], fleet: Fleet) -> None:
    asker = Asker(fleet, model(make(Context(fleet.config, "http://app.example")), Context(fleet.config, "http://a")))
    naming = "ours" if fleet.server.query("gpuledger_device_up", fleet.span.start + NOON) else "dcgm"
    excused = MAY_BE_EMPTY[naming]
    assert all(asker.values[name] for name in asker.values), asker.values
    empty = {where for where, count in asker.answers() if not count}
    assert empty - excused.keys() == set()
    asker.annotation()
    for name, found in asker.values.items():
        seen: set[str] = set()
        for value in found[:MOST_VALUES]:
            seen |= {where for where, count in asker.answers(**{name: escaped(value)}) if count}
        unseen = {where for where, _ in expressions(asker.board)} - seen - excused.keys()
        assert not unseen, f"empty for each value of ${name}"


def test_an_excuse_is_for_a_panel_that_is_there(fleet: Fleet) -> None:
    context = Context(fleet.config, "http://app.example")
    there = {where for make in BOARDS for where, _ in expressions(model(make(context), context))}
    assert {where for excuses in MAY_BE_EMPTY.values() for where in excuses} <= there


def test_every_query_keeps_to_the_lint(make: Callable[[Context], Board], fleet: Fleet) -> None:
    context = Context(fleet.config, "http://app.example")
    for where, expression in expressions(model(make(context), context)):
        assert lint(expression, where, stable=False) == []
