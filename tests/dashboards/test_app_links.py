"""Links into the app open pages that are there, with the scope that they carry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit
from zoneinfo import ZoneInfo

import pytest
import streamlit as st

from alerts.build import alert_groups, every_alert
from alerts.links import Links
from app import address, grafana
from app.spans import Days
from app.views import PAGES, Page
from tests.alerts.promtool import example

APP: Final = "https://ledger.example"
BOARDS: Final = Path(__file__).resolve().parents[2] / "dashboards" / "example" / "dashboards"
BY_PATH: Final = {path: page for page in PAGES for path in (page.path, *page.also)}
# 2026-11-03 10:00 to 2026-11-04 10:00 UTC, in ms
FROM, TO = 1_793_700_000_000, 1_793_786_400_000


def board_links() -> Iterator[tuple[dict[str, Any], str]]:
    for path in sorted(BOARDS.rglob("*.json")):
        board = json.loads(path.read_text())
        for link in board["links"]:
            if link["type"] == "link":
                yield board, link["url"]


def alert_links() -> Iterator[tuple[str, str]]:
    for group in alert_groups(example(), Links(app=f"{APP}/")):
        for rule in group.rules:
            yield rule["alert"], rule["annotations"]["app_url"]


def opened(url: str) -> tuple[Page, dict[str, list[str]]]:
    """The page that an address opens, and what it carries."""
    parts = urlsplit(url)
    return BY_PATH[parts.path.strip("/")], parse_qs(parts.query, strict_parsing=bool(parts.query))


def test_a_board_opens_a_page_with_its_time_and_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    for board, link in board_links():
        url = link.replace("${__from}", str(FROM)).replace("${__to}", str(TO))
        url = url.replace("${tenant:percentencode}", quote("a b&c", safe=""))
        assert "$" not in url
        _, carried = opened(url)
        of_tenant = any(variable["name"] == "tenant" for variable in board["templating"]["list"])
        assert carried.pop("tenant", None) == (["a b&c"] if of_tenant else None)
        monkeypatch.setattr(st, "session_state", {})
        monkeypatch.setattr(st, "query_params", {name: value for name, (value,) in carried.items()})
        days = grafana.take_range(ZoneInfo("America/New_York"))
        assert isinstance(days, Days)
        assert (str(days.first), str(days.last)) == ("2026-11-03", "2026-11-04")
        assert {name for name in carried if address.value(name) is not None} == set(), (
            "the app knows nothing of the rest"
        )
        count += 1
    assert count == len(list(BOARDS.rglob("*.json")))


def test_a_board_for_tenants_opens_no_page_of_the_fleet_alone() -> None:
    for board, url in board_links():
        page = BY_PATH[urlsplit(url).path.strip("/")]
        assert not (page.of_fleet and "tenants" in board["tags"]), board["uid"]


def test_an_alert_opens_a_page_that_who_gets_it_may_see_with_its_tenant() -> None:
    alerts = {alert.name: alert for found in every_alert(example()).values() for alert in found}
    for name, url in alert_links():
        assert url.startswith(f"{APP}/")
        page, carried = opened(re.sub(r"\{\{ \$labels\.([a-z]+) \| urlquery \}\}", r"\1-value", url))
        of_tenant = "tenant" in alerts[name].labels
        assert carried == ({"tenant": ["tenant-value"]} if of_tenant else {}), name
        assert not (alerts[name].audience == "tenant" and page.of_fleet), name
