"""Queries of the workload board: the signature of one pod or job."""

from __future__ import annotations

from typing import Final

from pipelines.analysis.signatures import THRESHOLDS
from pipelines.config import Config
from pipelines.promql.expressions import by, labelled
from pipelines.promql.holders import HOLDABLE, dcgm_holders, our_holders
from pipelines.promql.normalise import BOARD, DEVICE, of_boards, of_devices
from pipelines.promql.recorded import BUSY, CONDITION

_CARD_PART: Final = by(*BOARD)
WORKLOAD_LEGEND: Final = "{{node}} {{gpu}} {{gpu_instance}}"


def _limit(threshold: str) -> str:
    """A threshold of the ledger's own signatures: the board and the report name the same cause by the same number."""
    return f"{THRESHOLDS[threshold].value:.12g}"


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
        """1 for the one cause whose signature fits the means now, with its name; shapes over time are the ledger's."""
        engine, sm = self.mean("engine_active_ratio"), self.mean("sm_active_ratio")
        tensor, dram = self.mean("tensor_active_ratio"), self.mean("dram_active_ratio")
        fp32, pcie = self.mean("fp32_active_ratio"), f"avg({self.of_cards('pcie_receive_bytes_per_second')})"

        def below(value: str, threshold: str) -> str:
            return f"{value} < {_limit(threshold)}"

        def least(value: str, threshold: str) -> str:
            return f"{value} >= {_limit(threshold)}"

        always = least(engine, "kernels_always")
        tests = (
            ("idle", (below(engine, "idle_activity"), below(sm, "idle_activity"))),
            ("host_copies", (least(pcie, "copies"), below(engine, "kernels_wait"), below(sm, "sm_for_copies"))),
            ("memory_bandwidth", (least(dram, "dram_busy"), below(tensor, "tensor_little"))),
            ("no_tensor_cores", (always, below(tensor, "tensor_none"), least(fp32, "fp32_used"))),
            ("compute", (always, least(sm, "sm_busy"), least(tensor, "pipe_busy"))),
            ("unknown", (f"{engine} >= 0",)),
        )
        return " or on () ".join(
            labelled(f"(({' and '.join(test)}) ^ 0)", {"bottleneck": name}) for name, test in tests
        )
