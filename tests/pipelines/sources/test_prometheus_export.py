"""VictoriaMetrics' export of raw samples."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat

import httpx
import pytest

from exporter.errors import SourceError
from pipelines.config import Source
from pipelines.sources.prometheus import read_prometheus
from tests.pipelines.sources.prometheus_double import URL, Server

NAME = "DCGM_FI_DEV_POWER_USAGE"
NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
NOON_MS = round(NOON.timestamp() * 1000)
CARD = {"__name__": NAME, "UUID": "GPU-a", "Hostname": "n1"}
LINES = {"Content-Type": "application/stream+json; charset=utf-8"}


def line(values: str, *seconds: int, card: str = "GPU-a") -> str:
    times = ",".join(str(NOON_MS + 1000 * second) for second in seconds)
    return f'{{"metric":{json.dumps({**CARD, "UUID": card})},"values":[{values}],"timestamps":[{times}]}}\n'


def rows(*bodies: str) -> list[tuple[str, int, float]]:
    """What a server yields that answers with these bodies, one after the other, the last one from then on."""
    left = chain(bodies, repeat(bodies[-1]))
    server = Server([NAME], export=lambda _: httpx.Response(200, headers=LINES, text=next(left)))
    samples = read_prometheus(Source(prometheus=URL), (NOON, NOON + timedelta(hours=1)), api=server.api()).samples
    assert server.queries() == []
    return [
        (device, round(t.timestamp() * 1000) - NOON_MS, watts)
        for device, t, watts in samples.select("device", "time", "power_watts").rows()
    ]


def test_each_line_is_a_series() -> None:
    body = line("100,200.5,1e2", 0, 15, 30) + line("7", 15, card="GPU-b")
    assert rows(body) == [("GPU-a", 0, 100), ("GPU-a", 15_000, 200.5), ("GPU-a", 30_000, 100), ("GPU-b", 15_000, 7)]


def test_staleness_markers_and_what_lies_outside_the_window_are_left_out() -> None:
    assert rows(line("1,2,null,4", -1, 0, 15, 3600)) == [("GPU-a", 0, 2)]


@pytest.mark.parametrize("infinity", ["+Inf", '"Infinity"', "Inf"])
def test_infinities_are_read_as_any_version_writes_them(infinity: str) -> None:
    assert rows(line(f"1,{infinity},3", 0, 15, 30)) == [
        ("GPU-a", 0, 1), ("GPU-a", 15_000, float("inf")), ("GPU-a", 30_000, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "damaged",
    [
        line("1,2", 0, 15)[:-1],
        line("1,2", 0, 15)[:30],
        line("1,2", 0, 15) + "cannot export data: a storage node is away\n",
        line("1,2", 0),
        line("1,two", 0, 15),
    ],
)
def test_an_answer_that_is_cut_or_damaged_is_an_error(damaged: str) -> None:
    with pytest.raises(SourceError, match="/api/v1/export in part only"):
        rows("", damaged)


def test_a_limit_of_the_server_shortens_the_window() -> None:
    def export(request: httpx.Request) -> httpx.Response:
        form = httpx.QueryParams(request.content.decode())
        start = float(form["start"])
        if float(form["end"]) - start > 1800:
            return httpx.Response(422, text="cannot select more than -search.maxSamplesPerQuery=1000 samples")
        return httpx.Response(200, headers=LINES, text=line("1", round(start - NOON_MS / 1000)))

    server = Server([NAME], export=export)
    samples = read_prometheus(Source(prometheus=URL), (NOON, NOON + timedelta(hours=1)), api=server.api()).samples
    assert samples.height == 2
