"""A node and its GPUs: load, memory, heat, power, links, holders."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context, clicked, link_to
from dashboards.panels import Column, Query, Row, lines, stat, table, timeline
from dashboards.queries import node as q


def node(_context: Context) -> Board:
    """What the operator opens after an alert on a node or card."""
    now = [
        stat("GPUs", "Cards that answer now.", q.PRESENT, look.COUNT),
        stat("Expected", "Cards that should be there.", q.EXPECTED, look.COUNT),
        stat("Hottest", "Hottest core of these cards.", q.HOTTEST, look.CELSIUS, look.HOT),
        stat("Power of limit", "Draw, of the limits in force.", q.POWER_PART, look.RATIO, look.HIGH_IS_FULL),
        stat("Slowed or hot", "Cards slowed by heat or hardware, or with hot memory.", q.THROTTLED, look.COUNT,
             look.ANY_IS_ODD),
    ]  # fmt: skip
    holders = table(
        "Holders", "Who holds which device; click a tenant for its board.", [Query(q.HOLDERS)],
        [
            Column("node", "Node"),
            Column("gpu", "GPU"),
            Column("gpu_instance", "Instance"),
            Column("model", "Model"),
            Column("tenant", "Tenant", link=link_to("gpuledger-tenant", tenant=clicked("Tenant"))),
            Column("Value", "GPUs", look.COUNT),
        ],
    )  # fmt: skip
    return Board(
        uid="gpuledger-node",
        title="Node and GPU",
        description="Load, memory, heat, power, links and holders of the cards of a node.",
        audience="operators",
        variables=[variables.cluster(), variables.node(), variables.model()],
        app_page="allocations",
        start="now-6h",
        rows=[
            Row("Now", now, height=4),
            Row("Load", [
                lines("Engine", "Share of time in which the engine was busy, by device.",
                      [Query(q.ENGINE, q.DEVICE_LEGEND)], look.unit_of("engine_active_ratio"), highest=1),
                lines("Driver's utilisation", "Some kernel ran: one busy SM can read 100 %.",
                      [Query(q.DRIVER, q.CARD_LEGEND)], look.unit_of("gpu_util_ratio"), highest=1),
                lines("Memory", "Device memory that processes hold.", [Query(q.MEMORY, q.DEVICE_LEGEND)],
                      look.unit_of("memory_used_bytes")),
            ]),
            Row("Heat and power", [
                lines("Core temperature", "Temperature of the GPU core.", [Query(q.TEMPERATURE, q.CARD_LEGEND)],
                      look.unit_of("temperature_celsius"), steps=look.HOT),
                lines("Memory temperature", "Temperature of device memory.",
                      [Query(q.MEMORY_TEMPERATURE, q.CARD_LEGEND)], look.unit_of("memory_temperature_celsius"),
                      steps=look.HOT),
                lines("Power", "Draw of the board.", [Query(q.POWER, q.CARD_LEGEND)], look.unit_of("power_watts")),
                lines("SM clock", "Clock of the SMs: falls when the card is slowed.", [Query(q.CLOCK, q.CARD_LEGEND)],
                      look.unit_of("sm_clock_hertz")),
            ]),
            Row("Links", [
                lines("PCIe", "Bytes a second over PCIe.",
                      [Query(q.PCIE_SENT, f"{q.CARD_LEGEND} sent"),
                       Query(q.PCIE_RECEIVED, f"{q.CARD_LEGEND} received")],
                      look.unit_of("pcie_transmit_bytes_per_second")),
                lines("NVLink", "Bytes a second over all NVLinks.",
                      [Query(q.NVLINK_SENT, f"{q.CARD_LEGEND} sent"),
                       Query(q.NVLINK_RECEIVED, f"{q.CARD_LEGEND} received")],
                      look.unit_of("nvlink_transmit_bytes_per_second")),
            ]),
            Row("States", [
                timeline("Conditions", "Minutes in which a card was capped, slowed or hot.",
                         Query(q.CONDITIONS, "{{node}} {{gpu}} {{condition}}"), {1: ("yes", look.AMBER)}),
                holders,
            ], height=10),
        ],
    )  # fmt: skip
