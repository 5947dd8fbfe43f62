"""Queries of the node and GPU board."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, MODEL, NODE
from pipelines.promql.expressions import by
from pipelines.promql.normalise import BOARD, BOARD_IDENTITY, of_boards, of_devices
from pipelines.promql.recorded import CONDITION, HELD, NODE_EXPECTED, NODE_POWER, NODE_POWER_LIMIT, NODE_PRESENT

WHERE: Final = (CLUSTER, NODE, MODEL)
_ON: Final = f"{{{CLUSTER},{NODE}}}"
DEVICE_LEGEND: Final = "{{node}} {{gpu}} {{gpu_instance}}"
CARD_LEGEND: Final = "{{node}} {{gpu}}"

PRESENT: Final = f"sum({NODE_PRESENT}{_ON})"
EXPECTED: Final = f"sum({NODE_EXPECTED}{_ON})"
POWER_PART: Final = f"sum({NODE_POWER}{_ON}) / sum({NODE_POWER_LIMIT}{_ON})"
HOTTEST: Final = f"max({of_boards('temperature_celsius', *WHERE)})"
THROTTLED: Final = f'count({CONDITION}{{condition!="power_cap",{CLUSTER},{NODE},{MODEL}}}) or 0 * {PRESENT}'

ENGINE: Final = of_devices("engine_active_ratio", *WHERE)
DRIVER: Final = of_boards("gpu_util_ratio", *WHERE)
MEMORY: Final = f"({of_devices('memory_used_bytes', *WHERE)})"
TEMPERATURE: Final = of_boards("temperature_celsius", *WHERE)
MEMORY_TEMPERATURE: Final = of_boards("memory_temperature_celsius", *WHERE)
POWER: Final = of_boards("power_watts", *WHERE)
CLOCK: Final = of_boards("sm_clock_hertz", *WHERE)
THROTTLE_BITS: Final = of_boards("throttle_reasons_bitmask", *WHERE)
PCIE_SENT: Final = of_boards("pcie_transmit_bytes_per_second", *WHERE)
PCIE_RECEIVED: Final = of_boards("pcie_receive_bytes_per_second", *WHERE)
NVLINK_SENT: Final = of_boards("nvlink_transmit_bytes_per_second", *WHERE)
NVLINK_RECEIVED: Final = of_boards("nvlink_receive_bytes_per_second", *WHERE)
HOLDERS: Final = f"sum by {by(*BOARD_IDENTITY, *BOARD[1:], 'gpu_instance', 'tenant')} ({HELD}{{{','.join(WHERE)}}})"
CONDITIONS: Final = f"max by (node, gpu, condition) ({CONDITION}{{{','.join(WHERE)}}})"
