"""Queries of the workload board: the signature of one pod or job."""

from __future__ import annotations

from typing import Final

from pipelines.config import Config
from pipelines.promql.expressions import by, labelled
from pipelines.promql.holders import HOLDABLE, dcgm_holders, our_holders
from pipelines.promql.normalise import BOARD, DEVICE, of_boards, of_devices
from pipelines.promql.recorded import BUSY, CONDITION

_CARD_PART: Final = by(*BOARD)
WORKLOAD_LEGEND: Final = "{{node}} {{gpu}} {{gpu_instance}}"

# Signatures after published job-efficiency studies; see docs/dashboards.md.
IDLE_BELOW, TENSOR_BUSY, SM_BUSY, SM_FULL, DRAM_BUSY, PCIE_BUSY = 0.05, 0.5, 0.6, 0.8, 0.5, 1e9


class Workload:
    """Queries that follow ``$workload``: ``namespace/pod``, or a Slurm job id."""

    def __init__(self, config: Config) -> None:
        rows = f"({our_holders(config)} or ({dcgm_holders(config)} unless on {by(*BOARD)} {HOLDABLE}))"
        named = f'label_join({rows}, "workload", "/", "holder_namespace", "holder_pod")'
        # A job has no pod: its name is then "/" so far.
        named = f'label_replace({named}, "workload", "$1", "hpc_job", "(.+)")'
        self.names = f"query_result(group by (workload) ({named}))"
        kept = f'label_replace({named}, "chosen", "yes", "workload", "$workload")'
        mine = f"({kept} unless on (chosen) vector(0))"
        self._devices = f"group by {by(*DEVICE)} ({mine})"
        self._boards = f"group by {_CARD_PART} ({mine})"

    def of(self, key: str) -> str:
        """A metric of the workload's devices."""
        return f"({of_devices(key)}) and on {by(*DEVICE)} {self._devices}"

    def of_cards(self, key: str) -> str:
        """A metric of the workload's cards."""
        return f"({of_boards(key)}) and on {_CARD_PART} {self._boards}"

    def mean(self, key: str) -> str:
        """Mean over the workload's devices."""
        return f"avg({self.of(key)})"

    @property
    def devices(self) -> str:
        """How many devices it holds."""
        return f"count({self._devices})"

    @property
    def spread(self) -> str:
        """How far the slowest device is behind the median: a straggler holds all the others up."""
        busy = f"({BUSY} and on {by(*DEVICE)} {self._devices})"
        return f"quantile(0.5, {busy}) - min({busy})"

    @property
    def memory_part(self) -> str:
        """Memory used, of used and free."""
        used, free = self.of("memory_used_bytes"), self.of("memory_free_bytes")
        return f"sum({used}) / (sum({used}) + sum({free}))"

    @property
    def power_part(self) -> str:
        """Power of the cards, of their limit in force."""
        return f"sum({self.of_cards('power_watts')}) / sum({self.of_cards('power_limit_enforced_watts')})"

    @property
    def throttled(self) -> str:
        """Devices slowed by heat or hardware now."""
        slowed = (
            f'count({CONDITION}{{condition=~"thermal_throttle|hardware_slowdown"}} and on {_CARD_PART} {self._boards})'
        )
        return f"{slowed} or 0 * {self.devices}"

    @property
    def signature(self) -> str:
        """1 for the one bottleneck whose signature fits, with its name."""
        engine, sm = self.mean("engine_active_ratio"), self.mean("sm_active_ratio")
        tensor, dram = self.mean("tensor_active_ratio"), self.mean("dram_active_ratio")
        pcie = f"avg({self.of_cards('pcie_receive_bytes_per_second')})"
        tests = (
            ("idle", f"({engine} < {IDLE_BELOW} and {sm} < {IDLE_BELOW})"),
            ("compute", f"(({tensor} >= {TENSOR_BUSY} and {sm} >= {SM_BUSY}) or {sm} >= {SM_FULL})"),
            ("memory bandwidth", f"({dram} >= {DRAM_BUSY} and {sm} < {SM_BUSY})"),
            ("host copies", f"({pcie} >= {PCIE_BUSY:.0f} and {sm} < 0.3)"),
            ("input or waiting", f"({engine} >= {IDLE_BELOW} and {sm} < {SM_BUSY})"),
        )
        return " or on () ".join(labelled(f"({test} ^ 0)", {"bottleneck": name}) for name, test in tests)
