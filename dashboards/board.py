"""A board: rows of panels laid out on Grafana's grid, with the variables, links and annotations that all share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from grafanalib import core as grafana

from dashboards import variables
from dashboards.finish import DATASOURCE
from dashboards.panels import Row
from pipelines.config import Config

Audience = Literal["operators", "tenants", "management"]

WIDTH: Final = 24
TAG: Final = "gpuledger"
TIMES: Final = "${__url_time_range}"
_ALERTS: Final = 'ALERTS{alertstate="firing",audience=~"platform|tenant"}'


@dataclass(frozen=True)
class Context:
    """What boards are made from.

    Args:
        config: currency, energy terms and what the exporters' own pods are called.
        app: address of the web app.
    """

    config: Config
    app: str

    @property
    def currency(self) -> str:
        """ISO 4217 code of money."""
        return self.config.currency


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard.

    Args:
        variables: names of those that it has beside the data source, in order.
        app_page: path of the web app's page on the same subject.
    """

    uid: str
    title: str
    description: str
    audience: Audience
    rows: Sequence[Row]
    variables: Sequence[grafana.Template]
    app_page: str
    start: str = "now-24h"


def assemble(board: Board, context: Context) -> grafana.Dashboard:
    """The board with everything that all boards have."""
    return grafana.Dashboard(
        uid=board.uid,
        title=board.title,
        description=board.description,
        tags=[TAG, board.audience],
        time=grafana.Time(board.start, "now"),
        refresh="1m",
        timezone="browser",
        graphTooltip=grafana.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        templating=grafana.Templating(list=[variables.datasource(), *board.variables]),
        annotations=grafana.Annotations(list=[_alert_annotation()]),
        links=_links(board, context),
        panels=_laid_out(board.rows),
    )


def link_to(uid: str, **values: str) -> str:
    """A drill-down that keeps time range and variables; ``values`` are set from the row that was clicked."""
    chosen = "".join(f"&var-{name}={value}" for name, value in values.items())
    return f"/d/{uid}?{TIMES}&${{datasource:queryparam}}&${{cluster:queryparam}}{chosen}"


def clicked(label: str) -> str:
    """The value of a label in the row or series that was clicked."""
    return f"${{__data.fields.{label}}}"


def _links(board: Board, context: Context) -> list[grafana.DashboardLink | dict[str, object]]:
    others = {
        "type": "dashboards", "title": "GPULedger", "tags": [TAG], "asDropdown": True, "keepTime": True,
        "includeVars": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": "",
    }  # fmt: skip
    names = {variable.name for variable in board.variables}
    # Of several tenants, or All, this is no tenant's id, and the app shows all of them.
    tenant = "&tenant=${tenant:percentencode}" if "tenant" in names else ""
    page = f"{context.app.rstrip('/')}/{board.app_page}?from=${{__from}}&to=${{__to}}{tenant}"
    app = {
        "type": "link", "title": "In the app", "url": page, "targetBlank": True, "icon": "external link",
        "tooltip": "The same tenant and time in the ledger", "tags": [], "asDropdown": False, "keepTime": False,
        "includeVars": False,
    }  # fmt: skip
    return [others, app]


def _alert_annotation() -> dict[str, object]:
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "red",
        "expr": _ALERTS,
        "step": "60s",
        "titleFormat": "{{alertname}}",
        "textFormat": "{{severity}} {{node}} {{gpu}} {{tenant}}",
        "tagKeys": "alertname,severity",
    }


def _laid_out(rows: Sequence[Row]) -> list[grafana.Panel]:
    placed: list[grafana.Panel] = []
    y = 0
    for row in rows:
        placed.append(grafana.RowPanel(title=row.title, gridPos=grafana.GridPos(1, WIDTH, 0, y)))
        y, x = y + 1, 0
        for panel, width in zip(row.panels, row.widths or _even(len(row.panels)), strict=True):
            if x + width > WIDTH:
                x, y = 0, y + row.height
            panel.gridPos = grafana.GridPos(row.height, width, x, y)
            _fit_legend(panel, width)
            placed.append(panel)
            x += width
        y += row.height
    return placed


def _fit_legend(panel: grafana.Panel, width: int) -> None:
    """Put a narrow panel's legend below its lines: beside them it leaves no room for them."""
    legend = (panel.extraJson or {}).get("options", {}).get("legend", {})
    if legend.get("placement") == "right" and width < WIDTH // 2:
        legend |= {"displayMode": "list", "placement": "bottom", "calcs": []}


def _even(count: int) -> list[int]:
    """Equal widths; what doesn't divide goes to the last."""
    each = WIDTH // count
    return [each] * (count - 1) + [WIDTH - each * (count - 1)]
