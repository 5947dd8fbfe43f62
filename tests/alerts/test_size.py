"""What the rules cost on a fleet of 1,000 GPUs."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from alerts.build import ALERTS_FILE, RECORDING_FILE, build
from exporter.catalog import CATALOG
from tests.alerts.prometheus import Prometheus
from tests.alerts.promtool import example

GPUS, A_NODE = 1000, 8
WARM, EVALUATIONS = 1, 5
MODEL = "NVIDIA H100 80GB HBM3"
CAPABILITIES = ("utilization", "profiling", "nvlink", "ecc", "mig", "row_remap")


def write_fleet(path: Path, at: int) -> int:
    """One scrape of all cards, each held by a pod, as our exporter shows them; returns the number of series."""
    lines = []
    for gpu in range(GPUS):
        on = f'node="n{gpu // A_NODE}",gpu="{gpu % A_NODE}",uuid="GPU-{gpu}",model="{MODEL}"'
        target = f'{on},instance="n{gpu // A_NODE}:9836",job="gpuledger-exporter"'
        for metric in CATALOG:
            if metric.key == "owner_share_ratio":
                holder = f',namespace="vision-{gpu % 5}",pod="p{gpu // 2}",container="main",pod_uid="u{gpu // 2}"'
                lines.append(f"{metric.name}{{{target}{holder}}} 1 {at}")
            else:
                quiet = metric.kind == "counter" or metric.unit == ""
                lines.append(f"{metric.name}{{{target}}} {0 if quiet else min(metric.maximum, 0.6)} {at}")
        own = {"unowned_share_ratio": 0, "device_up": 1, "device_info": 1, "sample_age_seconds": 2}
        lines += [f"gpuledger_{key}{{{target}}} {value} {at}" for key, value in own.items()]
        lines.append(f'gpuledger_device_state{{{target},state="up"}} 1 {at}')
        lines += [f'gpuledger_capability{{{target},capability="{name}"}} 1 {at}' for name in CAPABILITIES]
        if gpu % A_NODE == 0:
            lines.append(f'gpuledger_devices_expected{{node="n{gpu // A_NODE}"}} {A_NODE} {at}')
    path.write_text("\n".join([*lines, "# EOF", ""]))
    return len(lines)


@pytest.mark.needs_program("prometheus", "promtool")
def test_rules_take_little_and_add_few_series(tmp_path: Path) -> None:
    now = int(time.time())
    raw = write_fleet(tmp_path / "fleet.om", now)
    build(example(), tmp_path)
    for name in (RECORDING_FILE, ALERTS_FILE):
        file = tmp_path / name
        file.write_text(re.sub(r"interval: \d+m", "interval: 2s", file.read_text()))
    server = Prometheus(tmp_path, lookback_seconds=3600, config="rule_files: ['*.rules.yml']\n")
    server.fill(tmp_path / "fleet.om")
    with server:
        begun = 0.0
        while (rounds := evaluations(server)) < EVALUATIONS:
            # The first ones also load blocks and fill caches.
            begun = server.cpu_seconds() if rounds <= WARM else begun
            time.sleep(0.2)
        taken = (server.cpu_seconds() - begun) / (evaluations(server) - WARM)
        added = server.value('count({__name__=~"[a-z_]+:[a-z_]+:[a-z_]+"})', time.time()) or 0
        failed = sum(server.metrics("prometheus_rule_evaluation_failures_total").values())
    assert failed == 0
    assert GPUS < added <= 0.05 * raw, f"{added} of {raw}"
    # Processor time, with the server's own keep; a busy machine takes longer for the same (1.03 s at a load of 6), so
    # this tells only rules that have become many times dearer.
    assert taken < 2.0


def evaluations(server: Prometheus) -> float:
    """How often all groups have been evaluated."""
    return min(server.metrics("prometheus_rule_group_iterations_total").values(), default=0)
