"""What is free now, what is promised, and when it runs out."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, bars, lines, stat, table
from dashboards.queries import capacity as q


def capacity(_context: Context) -> Board:
    """For whoever places work, or buys cards."""
    now = [
        stat("Free", "GPUs that nobody holds and a layout can hand out.", q.FREE, look.COUNT, decimals=1),
        stat("Held", "Of the cards that are there.", q.HELD_PART, look.RATIO, look.HIGH_IS_FULL),
        stat("Largest on one node", "Whole free cards of one model on one node: the largest job that fits without the "
             "network.", q.LARGEST_FREE, look.COUNT),
        stat("Reserved", "GPUs of reservations that run now.", q.RESERVED_NOW, look.COUNT),
    ]  # fmt: skip
    models = table(
        "Models", "Free now, and the trend of the last six hours drawn on.",
        [Query(q.CAPACITY_BY_MODEL), Query(q.HELD_BY_MODEL), Query(q.FREE_BY_MODEL), Query(q.TREND),
         Query(q.EXHAUSTED)],
        [
            Column("model", "Model"),
            Column("Value #A", "GPUs", look.COUNT),
            Column("Value #B", "Held", look.COUNT),
            Column("Value #C", "Free", look.COUNT, ((look.RED, None), (look.GREEN, 1))),
            Column("Value #D", "Free in a day, at this trend", look.COUNT, ((look.RED, None), (look.GREEN, 1))),
            Column("Value #E", "Hours until none is free", "h"),
        ],
    )  # fmt: skip
    reservations = table(
        "Reservations", "Those that run now.",
        [Query(q.RESERVATION_GPUS), Query(q.RESERVATION_USED), Query(q.RESERVATION_ENDS)],
        [
            Column("tenant", "Tenant", link=link_to("gpuledger-tenant", tenant=clicked("Tenant"))),
            Column("reservation", "Reservation"),
            Column("Value #A", "GPUs", look.COUNT),
            Column("Value #B", "In use", look.COUNT),
            Column("Value #C", "Ends", look.TIME),
        ],
    )  # fmt: skip
    known = table(
        "Models in the ledger", "As of the ledger's last pass: what schedulers and calendars took out counts as down.",
        [Query(q.ledger_cards(state)) for state in ("held", "free", "down", "stranded", "unknown")]
        + [Query(q.WHOLE_FREE), Query(q.LARGEST_BLOCK)],
        [
            Column("model", "Model"),
            Column("Value #A", "Held", look.COUNT),
            Column("Value #B", "Free", look.COUNT, ((look.RED, None), (look.GREEN, 1))),
            Column("Value #C", "Down", look.COUNT, look.ANY_IS_BAD),
            Column("Value #D", "Stranded", look.COUNT),
            Column("Value #E", "Unknown", look.COUNT, look.ANY_IS_ODD),
            Column("Value #F", "Free as a whole", look.COUNT),
            Column("Value #G", "Most on one node", look.COUNT),
        ],
    )  # fmt: skip
    out = table(
        "Nodes in trouble", "Cards that are down, in repair (drained, under maintenance) or degraded; none is good.",
        [Query(q.OUT_BY_NODE)],
        [
            Column("node", "Node", link=link_to("gpuledger-node", node=clicked("Node"))),
            Column("state", "State"),
            Column("Value", "Cards", look.COUNT),
        ],
    )  # fmt: skip
    promises = table(
        "Reservations, two weeks ahead", "Of the configuration and of schedulers; what can't be kept is red.",
        [Query(q.PROMISED_GPUS), Query(q.PROMISED_FROM), Query(q.PROMISED_TO), Query(q.PROMISED_FITS)],
        [
            Column("tenant", "Tenant", link=link_to("gpuledger-tenant", tenant=clicked("Tenant"))),
            Column("reservation", "Reservation"),
            Column("source", "From"),
            Column("model", "Model"),
            Column("Value #A", "GPUs", look.COUNT),
            Column("Value #B", "Starts", look.TIME),
            Column("Value #C", "Ends", look.TIME),
            Column("Value #D", "Fits", look.COUNT, ((look.RED, None), (look.GREEN, 1))),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-capacity",
        title="Capacity",
        description="What is free now, what is promised, and when it runs out.",
        audience="operators",
        variables=[variables.cluster(), variables.model(), variables.tenant()],
        app_page="allocations",
        start="now-2d",
        rows=[
            Row("Now", now, height=4),
            Row("Over time", [
                lines("Free by model", "GPUs that nobody holds.", [Query(q.FREE_BY_MODEL, "{{model}}")], look.COUNT),
                lines("Held by model", "GPUs held, whole and sliced.", [Query(q.HELD_BY_MODEL, "{{model}}")],
                      look.COUNT, stacked=True),
                bars("Whole free cards by node", "Where a job of n cards fits.",
                     Query(q.FREE_BY_NODE, "{{node}} {{model}}"), look.COUNT),
            ]),
            Row("Models and reservations", [models, reservations], height=10),
            Row("What the ledger knows", [known, out, promises], height=10, widths=(9, 5, 10)),
        ],
    )  # fmt: skip
