"""A tenant: what it holds, how well it is used, what it costs."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, lines, stat, table
from dashboards.queries import tenant as q


def tenant(context: Context) -> Board:
    """What a team looks at for itself."""
    money = look.money_per_hour(context.currency)
    now = [
        stat("Held", "GPUs held now.", q.HELD_NOW, look.COUNT, decimals=1),
        stat("Active of held", "Held × engine activity, of held.", q.ACTIVE_PART, look.RATIO, look.HIGH_IS_GOOD),
        stat("Held idle", "GPUs held for an hour at under 5 % busy.", q.IDLE_NOW, look.COUNT, look.ANY_IS_ODD,
             decimals=1),
        stat("Idle costs", "On-demand price of what is held idle.", q.IDLE_MONEY, money, look.ANY_IS_ODD, decimals=2),
        stat("Costs now", "Reservations and usage.", q.COST, money, decimals=2),
        stat("Quota", "Held, of the quota; n/a without one.", q.QUOTA_PART, look.RATIO, look.HIGH_IS_FULL),
        stat("Budget pace", "At 1 the budget lasts exactly the month; n/a without a budget.", q.PACE, "suffix: ×",
             ((look.GREEN, None), (look.AMBER, 1), (look.RED, 1.25)), decimals=1),
        stat("Budget used", "Of this calendar month's budget.", q.USED, look.RATIO, look.HIGH_IS_FULL),
    ]  # fmt: skip
    devices = table(
        "Devices", "What is held now; click a node for its GPUs.", [Query(q.DEVICES)],
        [
            Column("tenant", "Tenant"),
            Column("node", "Node", link=link_to("gpuledger-node", node=clicked("Node"))),
            Column("gpu", "GPU"),
            Column("gpu_instance", "Instance"),
            Column("model", "Model"),
            Column("Value", "GPUs", look.COUNT),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-tenant",
        title="Tenant",
        description="What a tenant holds, how well it is used, what it costs.",
        audience="tenants",
        variables=[variables.cluster(), variables.tenant(), variables.model()],
        app_page="overview",
        rows=[
            Row("Now", now, height=4),
            Row("Holdings", [
                lines("Held by model", "GPUs held.", [Query(q.BY_MODEL, "{{tenant}} {{model}}")], look.COUNT,
                      stacked=True),
                lines("Held by class", "Reserved, on demand, overflow and spot, as the ledger rates them.",
                      [Query(q.CLASSES, "{{class}}")], look.COUNT, stacked=True),
                lines("Reservation", "GPUs reserved, and those of them in use.",
                      [Query(q.RESERVED_NOW, "reserved"), Query(q.RESERVED_IN_USE, "in use")], look.COUNT),
            ]),
            Row("Use and cost", [
                lines("Held and active", "The gap between the two is paid for and does nothing.",
                      [Query(q.HELD_BY_TENANT, "{{tenant}} held"), Query(q.ACTIVE, "{{tenant}} active")], look.COUNT),
                lines("Held idle", "GPUs held for an hour at under 5 % busy.", [Query(q.IDLE_BY_TENANT, "{{tenant}}")],
                      look.COUNT),
                lines("Cost an hour", "Reservations and usage.", [Query(q.COST_BY_TENANT, "{{tenant}}")], money),
            ]),
            Row("Devices", [devices], height=10),
        ],
    )  # fmt: skip
