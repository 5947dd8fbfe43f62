"""Cards' health: XIDs, memory errors, links, what the driver asks for."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, lines, stat, table
from dashboards.queries import health as q


def health(_context: Context) -> Board:
    """What the operator opens after a hardware alert."""
    bad = look.ANY_IS_BAD
    now = [
        stat("XIDs", "XID errors of the last 15 minutes, by card and code.", q.XIDS, look.COUNT, bad),
        stat("Missing", "Cards that should be there and don't answer.", q.MISSING, look.COUNT, bad),
        stat("Recovery asked for", "Cards that the driver wants reset or rebooted.", q.ACTION, look.COUNT, bad),
        stat("Remap failed", "Cards without spare rows: replace them.", q.REMAP_FAILED, look.COUNT, bad),
        stat("Remap pending", "Cards that wait for a reset.", q.REMAP_PENDING, look.COUNT, look.ANY_IS_ODD),
        stat("Uncorrected ECC", "Cards with uncorrected errors since the driver was loaded.", q.ECC_CARDS, look.COUNT,
             look.ANY_IS_ODD),
    ]  # fmt: skip
    node_link = link_to("gpuledger-node", node=clicked("Node"))
    recent = table(
        "Recent XIDs", "XID errors of the last 15 minutes; click a node for its cards.", [Query(q.RECENT)],
        [Column("node", "Node", link=node_link), Column("gpu", "GPU"), Column("xid", "XID"), Column("model", "Model"),
         Column("uuid", "UUID")],
    )  # fmt: skip
    cards = table(
        "Cards", "Last XID code, remapped rows and PCIe replays; an empty cell was not measured.",
        [Query(q.LAST), Query(q.ROWS_UNCORRECTED), Query(q.ROWS_CORRECTED), Query(q.REPLAYS)],
        [
            Column("node", "Node", link=node_link),
            Column("gpu", "GPU"),
            Column("model", "Model"),
            Column("Value #A", "Last XID", look.COUNT),
            Column("Value #B", "Rows remapped, uncorrected", look.COUNT, look.ANY_IS_ODD),
            Column("Value #C", "Rows remapped, corrected", look.COUNT),
            Column("Value #D", "PCIe replays", look.COUNT),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-health",
        title="Health and XID",
        description="What broke, what is about to, and what the driver asks for.",
        audience="operators",
        variables=[variables.cluster(), variables.node(), variables.model()],
        app_page="health",
        rows=[
            Row("Now", now, height=4),
            Row("Events", [
                lines("XIDs by node", "Cards with an XID in the last 15 minutes.",
                      [Query(q.RECENT_BY_NODE, "{{node}} XID {{xid}}")], look.COUNT),
                lines("Uncorrected ECC errors", "Since the driver was loaded, where there were any.",
                      [Query(q.ECC, q.LEGEND)], look.COUNT),
                lines("NVLink recoveries", "Since the driver was loaded, where there were any.",
                      [Query(q.NVLINK, q.LEGEND)], look.COUNT),
                lines("Slowed or hot", "Cards in a condition.", [Query(q.CONDITIONS, "{{condition}}")], look.COUNT),
            ]),
            Row("Cards", [recent, cards], height=12, widths=(8, 16)),
        ],
    )  # fmt: skip
