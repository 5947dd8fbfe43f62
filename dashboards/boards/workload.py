"""One pod or job: its bottleneck's signature on one screen."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context
from dashboards.panels import Query, Row, lines, stat, timeline
from dashboards.queries.workload import WORKLOAD_LEGEND as LEGEND
from dashboards.queries.workload import Workload


def workload(context: Context) -> Board:
    """What the researcher opens who asks why a job is slow."""
    q = Workload(context.config)
    ratio = look.RATIO
    now = [
        stat("Devices", "Cards or MIG instances that it holds.", q.devices, look.COUNT),
        stat("Engine", "Mean engine activity.", q.mean("engine_active_ratio"), ratio, look.HIGH_IS_GOOD),
        stat("SM", "Mean SM activity: 0.8 and more is needed to be efficient.", q.mean("sm_active_ratio"), ratio,
             look.HIGH_IS_GOOD),
        stat("Tensor", "Mean activity of the tensor pipes: near 0 with busy SMs means no mixed precision.",
             q.mean("tensor_active_ratio"), ratio),
        stat("DRAM", "Mean activity of device memory: 0.8 is its practical peak.", q.mean("dram_active_ratio"), ratio),
        stat("Memory", "Memory used: under half, a smaller card or slice would do.", q.memory_part, ratio),
        stat("Straggler", "How far the least busy device is behind the median.", q.spread, ratio,
             ((look.GREEN, None), (look.AMBER, 0.1), (look.RED, 0.3))),
        stat("Slowed", "Devices slowed by heat or hardware.", q.throttled, look.COUNT, look.ANY_IS_BAD),
    ]  # fmt: skip
    return Board(
        uid="gpuledger-workload",
        title="Workload",
        description="The signature of one pod or job: what it waits for.",
        audience="tenants",
        variables=[
            variables.cluster(),
            variables.single("workload", "Workload", q.names, regex='/workload="([^"]+)"/'),
        ],
        app_page="cost",
        start="now-6h",
        rows=[
            Row("Signature", now, height=4),
            Row("Bottleneck", [
                timeline("Bottleneck", "The first signature that fits the means over its devices.",
                         Query(q.signature, "{{bottleneck}}"), {1: ("fits", look.BLUE)}),
            ], height=5),
            Row("Activity by device", [
                lines("SM", "A saw-tooth waits for input; one line below the others is a straggler.",
                      [Query(q.of("sm_active_ratio"), LEGEND)], ratio, highest=1),
                lines("Tensor", "Activity of the tensor pipes.", [Query(q.of("tensor_active_ratio"), LEGEND)], ratio,
                      highest=1),
                lines("DRAM", "Activity of device memory.", [Query(q.of("dram_active_ratio"), LEGEND)], ratio,
                      highest=1),
            ], height=7),
            Row("Traffic and limits", [
                lines("PCIe", "Bytes a second from the host.",
                      [Query(q.of_cards("pcie_receive_bytes_per_second"), LEGEND)],
                      look.unit_of("pcie_receive_bytes_per_second")),
                lines("NVLink", "Bytes a second received over NVLink.",
                      [Query(q.of_cards("nvlink_receive_bytes_per_second"), LEGEND)],
                      look.unit_of("nvlink_receive_bytes_per_second")),
                lines("Power", "Draw of the boards.", [Query(q.of_cards("power_watts"), LEGEND)], look.WATTS),
                lines("SM clock", "Falls when the card is slowed.", [Query(q.of_cards("sm_clock_hertz"), LEGEND)],
                      look.unit_of("sm_clock_hertz")),
            ], height=7),
        ],
    )  # fmt: skip
