"""What is idle and could be had back, in money."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, bars, lines, stat, table
from dashboards.queries import idle as q


def idle(context: Context) -> Board:
    """Where to look first when more GPUs are asked for."""
    money = look.money_per_hour(context.currency)
    now = [
        stat("Held idle", "On-demand price of GPUs held for an hour at under 5 % busy.", q.IDLE_MONEY, money,
             look.ANY_IS_ODD, decimals=2),
        stat("Free", "On-demand price of GPUs that nobody holds.", q.FREE_MONEY, money, decimals=2),
        stat("Reserved, unused", "What unused reservations cost.", q.UNUSED_MONEY, money, look.ANY_IS_ODD, decimals=2),
        stat("GPUs held idle", "Reclaimable from tenants.", q.IDLE_GPUS, look.COUNT, look.ANY_IS_ODD, decimals=1),
        stat("GPUs free", "Nobody holds them.", q.FREE_GPUS, look.COUNT, decimals=1),
    ]  # fmt: skip
    devices = table(
        "Held and idle", "Each was under 5 % busy for an hour; click a tenant for its board.", [Query(q.IDLE_DEVICES)],
        [
            Column("tenant", "Tenant", link=link_to("gpuledger-tenant", tenant=clicked("Tenant"))),
            Column("node", "Node", link=link_to("gpuledger-node", node=clicked("Node"))),
            Column("gpu", "GPU"),
            Column("gpu_instance", "Instance"),
            Column("model", "Model"),
            Column("Value", "GPUs", look.COUNT),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-idle",
        title="Idle and reclaimable",
        description="What is held and does nothing, what is free, what is reserved and unused: in money.",
        audience="management",
        variables=[variables.cluster(), variables.tenant(), variables.model()],
        app_page="idle",
        rows=[
            Row("Now, by the hour", now, height=4),
            Row("By whom", [
                bars("Held idle by tenant", "On-demand price an hour.", Query(q.IDLE_BY_TENANT, "{{tenant}}"), money),
                bars("Unused reservations", "What they cost an hour.",
                     Query(q.UNUSED_BY_RESERVATION, "{{tenant}} {{reservation}}"), money),
                bars("Free by model", "On-demand price an hour.", Query(q.FREE_BY_MODEL, "{{model}}"), money),
            ]),
            Row("Over time", [
                lines("Held idle", "On-demand price of what is held idle.", [Query(q.IDLE_BY_TENANT, "{{tenant}}")],
                      money, stacked=True),
                lines("Free", "On-demand price of what nobody holds.", [Query(q.FREE_BY_MODEL, "{{model}}")], money,
                      stacked=True),
            ]),
            Row("Devices", [devices], height=10),
        ],
    )  # fmt: skip
