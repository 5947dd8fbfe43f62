"""The fleet in one look: what there is, who holds it, what is missing."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, lines, stat, table
from dashboards.queries import fleet as q


def fleet(context: Context) -> Board:
    """The operators' front page."""
    money = look.money_per_hour(context.currency)
    now = [
        stat("GPUs", "Cards that are there now.", q.CAPACITY, look.COUNT),
        stat("Held", "GPUs that a pod or job holds; slices count as their part.", q.HELD_NOW, look.COUNT, decimals=1),
        stat("Free", "GPUs that nobody holds and a layout can hand out.", q.FREE_NOW, look.COUNT, decimals=1),
        stat("Held of all", "Held, of the cards that are there.", q.HELD_PART, look.RATIO, look.HIGH_IS_GOOD),
        stat("Busy while held", "Engine activity of what is held, where known.", q.BUSY_PART, look.RATIO,
             look.HIGH_IS_GOOD),
        stat("Missing", "Cards that should be there and don't answer.", q.MISSING, look.COUNT, look.ANY_IS_BAD),
        stat("Coverage", "Held devices whose activity is known.", q.COVERED, look.RATIO, look.NEARLY_ALL),
        stat("Cost", "Reservations and usage of all tenants, at today's rates.", q.COST, money, decimals=2),
    ]  # fmt: skip
    nodes = table(
        "Nodes", "One row a node; click a name for its GPUs.",
        [Query(q.NODE_GPUS), Query(q.NODE_GAP), Query(q.NODE_HELD), Query(q.NODE_BUSY), Query(q.NODE_WATTS)],
        [
            Column("node", "Node", link=link_to("gpuledger-node", node=clicked("Node"))),
            Column("Value #A", "GPUs", look.COUNT),
            Column("Value #B", "Missing", look.COUNT, look.ANY_IS_BAD),
            Column("Value #C", "Held", look.COUNT),
            Column("Value #D", "Busy", look.RATIO, look.HIGH_IS_GOOD),
            Column("Value #E", "Power", look.WATTS),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-fleet",
        title="Fleet",
        description="What there is, who holds it, what is missing.",
        audience="operators",
        variables=[variables.cluster(), variables.node(), variables.model()],
        app_page="overview",
        rows=[
            Row("Now", now, height=4),
            Row("Over time", [
                lines("Held by tenant", "GPUs held; unattributed is held by no known tenant.",
                      [Query(q.HELD_BY_TENANT, "{{tenant}}")], look.COUNT, stacked=True),
                lines("Free by model", "GPUs that nobody holds.", [Query(q.FREE_BY_MODEL, "{{model}}")], look.COUNT),
            ]),
            Row("Load", [
                lines("Busy by model", "Mean engine activity of all devices of a model, held or not.",
                      [Query(q.BUSY_BY_MODEL, "{{model}}")], look.RATIO, highest=1),
                lines("Power", "Power draw of all cards.", [Query(q.POWER_BY_CLUSTER, "{{cluster}}")], look.WATTS),
            ]),
            Row("Nodes", [nodes], height=12),
        ],
    )  # fmt: skip
