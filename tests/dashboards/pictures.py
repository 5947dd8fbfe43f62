"""Pictures of boards, drawn by Grafana's own components from what a real Prometheus answers.

``python -m tests.dashboards.pictures BUNDLE OUT [UID …]`` after ``scripts/grafana-pictures`` has made the bundle.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from dashboards.board import Context
from dashboards.boards import BOARDS
from dashboards.build import model
from tests.alerts.fleet import INTERVAL, NOON, Fleet, stored
from tests.alerts.prometheus import Span
from tests.app.serving import CHROMIUM, FLAGS
from tests.dashboards.queries import ALL, asked, escaped, filled, variables

WIDTH: Final = 1608
MINUTES: Final = 5 * INTERVAL // 60
_PAGE: Final = '<body style="margin:0;background:#f4f5f5"><div id="board"></div></body>'
HOURS: Final = {"now-6h": 6, "now-24h": 24}


def draw(page: Page, bundle: Path, board: Mapping[str, Any], fleet: Fleet, picture: Path) -> list[str]:
    """Draw a board at noon of the second day into a file; returns the titles of panels that have nothing to show.

    Raises:
        AssertionError: a panel can't be drawn.
    """
    to = fleet.span.start + NOON
    since = max(to - HOURS.get(board["time"]["from"], 24) * 3600, fleet.span.start)
    chosen = _chosen(board, fleet, to)
    span = Span(since, to, INTERVAL)
    answers = {str(panel["id"]): list(_answers(panel, chosen, fleet, span)) for panel in board["panels"]}
    given = {"BOARD": board, "ANSWERS": answers, "FROM": since * 1000, "TO": to * 1000}
    # Under an address of its own, since the components keep settings in the browser's storage; nothing is fetched.
    page.set_viewport_size({"width": WIDTH, "height": 900})
    page.route("**/*", lambda route: route.fulfill(content_type="text/html", body=_PAGE))
    page.goto("http://boards.test/")
    page.evaluate("given => Object.assign(window, given)", given)
    page.add_style_tag(path=str(bundle.with_suffix(".css")))
    page.add_script_tag(path=str(bundle))
    page.wait_for_selector("body[data-drawn]", state="attached", timeout=120_000)
    faults = page.locator(".fault").all_text_contents()
    assert page.get_attribute("body", "data-drawn") == "yes", page.inner_text("body")
    assert not faults, faults
    # What lies outside the window isn't drawn: tables leave that to the browser.
    page.set_viewport_size({"width": WIDTH, "height": page.evaluate("document.body.scrollHeight")})
    page.wait_for_timeout(500)
    page.screenshot(path=str(picture))
    empty = page.locator("[data-empty=true]").evaluate_all("found => found.map(panel => panel.dataset.panel)")
    return [str(title) for title in empty]


def _chosen(board: Mapping[str, Any], fleet: Fleet, at: float) -> dict[str, str]:
    """All of each variable, or the first value where Grafana has no All."""
    chosen = dict.fromkeys(variables(board), ALL)
    for variable in board["templating"]["list"]:
        if variable["type"] == "query" and not variable.get("includeAll"):
            query, label = asked(variable["query"]["query"])
            rows = fleet.server.query(filled(query, chosen, minutes=MINUTES), at)
            chosen[variable["name"]] = escaped(min({row["metric"].get(label, "") for row in rows} - {"", "/"}))
    return chosen


def _answers(panel: Mapping[str, Any], chosen: Mapping[str, str], fleet: Fleet, span: Span) -> Iterator[dict[str, Any]]:
    for target in panel.get("targets", []):
        query = filled(target["expr"], chosen, minutes=MINUTES)
        series: list[tuple[Mapping[str, str], Sequence[tuple[float, float | None]]]]
        if target.get("instant"):
            found = fleet.server.query(query, span.end)
            series = [(row["metric"], [(span.end, float(row["value"][1]))]) for row in found]
        else:
            series = [(labels, _with_holes(points, span)) for labels, points in fleet.server.range(query, span)]
        yield {
            "refId": target["refId"],
            "table": target.get("format") == "table",
            "series": [
                {
                    "name": _named(target.get("legendFormat", ""), labels),
                    "labels": {name: value for name, value in labels.items() if name != "__name__"},
                    "points": [[at * 1000, value] for at, value in points],
                }
                for labels, points in series
            ],
        }


def _with_holes(points: Sequence[tuple[float, float]], span: Span) -> list[tuple[float, float | None]]:
    """Return a value per step, None where there is none, as Grafana's data source for Prometheus fills them in."""
    known = {round((at - span.start) / span.step): value for at, value in points}
    return [(span.start + n * span.step, known.get(n)) for n in range(round((span.end - span.start) / span.step) + 1)]


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{ *([a-z_]+) *}}", lambda found: labels.get(found[1], ""), legend).strip()


def main(bundle: Path, out: Path, *uids: str) -> None:
    """Draw the boards, or those that are named."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        fleet = stored(Path(folder), "ours")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        try:
            for make in BOARDS:
                context = Context(fleet.config, "http://localhost:8501")
                board = model(make(context), context)
                if not uids or board["uid"] in uids:
                    empty = draw(page, bundle, board, fleet, out / f"{board['uid']}.png")
                    sys.stdout.write(f"{board['uid']}.png; nothing to show: {', '.join(empty) or 'none'}\n")
        finally:
            browser.close()
            fleet.server.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
