"""What it costs now, and this month against the budget."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, bars, lines, stat, table
from dashboards.queries import cost as q

_PACE_STEPS: look.Steps = ((look.GREEN, None), (look.AMBER, 1), (look.RED, 1.25))


def cost(context: Context) -> Board:
    """What the manager opens: live, at the ledger's rates."""
    an_hour, money = look.money_per_hour(context.currency), look.money_unit(context.currency)
    now = [
        stat("Now", "Reservations and usage, at today's rates.", q.NOW, an_hour, decimals=2),
        stat("Reservations", "Reserved GPUs, used or not.", q.RESERVATIONS, an_hour, decimals=2),
        stat("Usage", "GPUs held beyond reservations.", q.USAGE, an_hour, decimals=2),
        stat(
            "In the time shown",
            "Mean cost times hours; the ledger's statement is the bill.",
            q.SPENT,
            money,
            decimals=0,
        ),
    ]
    tenants = table(
        "Tenants", "In the time shown; click a tenant for its board.",
        [Query(q.SPENT_BY_TENANT), Query(q.GPU_HOURS), Query(q.BUDGETS), Query(q.USED), Query(q.PACE)],
        [
            Column("tenant", "Tenant", link=link_to("gpuledger-tenant", tenant=clicked("Tenant"))),
            Column("Value #A", "Cost", money),
            Column("Value #B", "GPU-hours", look.COUNT),
            Column("Value #C", "Budget a month", money),
            Column("Value #D", "Used this month", look.RATIO, look.HIGH_IS_FULL),
            Column("Value #E", "Pace", look.COUNT, _PACE_STEPS),
        ],
    )  # fmt: skip
    prices = table(
        "Rate card", "Prices of a GPU-hour in force now.", [Query(q.PRICES)],
        [Column("model", "Model"), Column("class", "Class"), Column("Value", "Price", money, decimals=4)],
    )  # fmt: skip
    return Board(
        uid="gpuledger-cost",
        title="Cost",
        description="What it costs now, and this month against the budget.",
        audience="management",
        variables=[variables.cluster(), variables.tenant(), variables.model()],
        app_page="cost",
        start="now-7d",
        rows=[
            Row("Now", now, height=4),
            Row("This month", [
                bars("Budget used", "Of this calendar month's budget; n/a without one.", Query(q.USED, "{{tenant}}"),
                     look.RATIO, look.HIGH_IS_FULL, highest=1),
                lines("Pace", "At 1 a budget lasts exactly the month.", [Query(q.PACE, "{{tenant}}")], look.COUNT,
                      steps=_PACE_STEPS),
            ]),
            Row("Over time", [
                lines("By tenant", "Reservations and usage.", [Query(q.BY_TENANT, "{{tenant}}")], an_hour,
                      stacked=True),
                lines("By class", "Usage by class, beside the reservations.",
                      [Query(q.BY_CLASS, "{{class}}"), Query(q.RESERVED, "reservations")], an_hour, stacked=True),
                lines("By model", "Usage beyond reservations.", [Query(q.BY_MODEL, "{{model}}")], an_hour,
                      stacked=True),
            ]),
            Row("Tenants and prices", [tenants, prices], height=10, widths=(16, 8)),
        ],
    )  # fmt: skip
