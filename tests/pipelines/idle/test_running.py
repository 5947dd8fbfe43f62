"""Which leases go on at the end of a period: those that nobody says are over."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from pipelines.idle.held import SLACK_MS, running
from pipelines.instants import HOUR_MS
from pipelines.metering import LEASE

END = 10 * HOUR_MS


@pytest.mark.parametrize(
    ("end", "ended", "goes_on"),
    [
        (END, None, True),  # seen to the last, by labels
        (END, False, True),  # its scheduler says that it still runs
        (END, True, False),  # over at the very instant
        (END - SLACK_MS, None, True),
        (END - SLACK_MS, True, False),
        (END - SLACK_MS - 1, None, False),
        (END + HOUR_MS, True, True),  # over later: it held at the period's end
    ],
)
def test_a_lease_goes_on_at_the_end_of_a_period_unless_it_is_over(end: int, ended: bool | None, goes_on: bool) -> None:
    rows: list[dict[str, Any]] = [
        dict.fromkeys(LEASE) | {"workload": "w", "start": HOUR_MS, "end": end, "ended": ended},
        dict.fromkeys(LEASE) | {"workload": "later", "start": END, "end": END + HOUR_MS},
    ]
    found = running(pl.DataFrame(rows, schema=LEASE), (0, END))
    assert found["workload"].to_list() == (["w"] if goes_on else [])
