"""Alerts on the metering itself: what isn't seen can't be billed, and must never look like zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.recording.holders import UNATTRIBUTED
from alerts.rule import Alert
from exporter.catalog import BY_KEY, PREFIX
from pipelines.promql.expressions import by, labelled, number
from pipelines.promql.normalise import BOARD, DEVICE, reading, with_our_labels
from pipelines.promql.recorded import BUSY, COVERAGE, HELD, NODE_POWER

EXPORTER_JOBS: Final = "(?i).*(gpuledger|dcgm|gpu.?exporter).*"
"""Scrape jobs of the exporters."""
STALE_SECONDS: Final = 300
COVERAGE_LEAST: Final = 0.95
PIPELINE_LATE_SECONDS: Final = 3600
PIPELINE_FAILURES: Final = 3
UNATTRIBUTED_GPUS: Final = 1

_STACK: Final = "gpuledger-stack"
_NODE: Final = ("cluster", "node")


def metering() -> Iterator[Alert]:
    """Alerts on exporters, owners, units and the pipeline."""
    yield from _exporter()
    yield from _owners()
    yield from _pipeline()
    yield _units()


def _exporter() -> Iterator[Alert]:
    # `instance` is host:port; the host is what the other alerts call the node.
    down = f'label_replace(up{{job=~"{EXPORTER_JOBS}"}} == 0, "node", "$1", "instance", "([^:]+)(:[0-9]+)?")'
    yield Alert(
        name="GpuExporterDown",
        expr=f"max by {by(*_NODE, 'job')} ({down})",
        for_="5m",
        severity="critical",
        audience="platform",
        summary="The GPU exporter of {{ $labels.node }} can't be scraped",
        description="Nothing is metered there (job {{ $labels.job }}). Look at whether the process runs and answers "
        "/readyz, then at the network between Prometheus and it.",
        dashboard=_STACK,
        labels=(*_NODE, "job"),
    )
    yield Alert(
        name="GpuDriverUnavailable",
        expr=f"max by {by(*_NODE)} ({PREFIX}backend_up) == 0",
        for_="5m",
        severity="critical",
        audience="platform",
        summary="The NVIDIA driver of {{ $labels.node }} doesn't answer",
        description="The exporter runs and reads nothing. Try nvidia-smi; a driver update without a reboot, or a card "
        "that fell off the bus, looks like this.",
        dashboard=_STACK,
        labels=_NODE,
    )
    yield Alert(
        name="GpuMetricsStale",
        expr=f"max by {by(*_NODE)} ({PREFIX}sample_age_seconds) > {STALE_SECONDS}",
        for_="2m",
        severity="warning",
        audience="platform",
        summary="GPU values of {{ $labels.node }} are {{ $value | humanizeDuration }} old",
        description="The exporter answers, but a call into the driver hangs. Look at dmesg, then restart the exporter.",
        dashboard=_STACK,
        labels=_NODE,
    )
    yield Alert(
        name="MeteringCoverageLow",
        expr=f"{COVERAGE} < {COVERAGE_LEAST}",
        for_="30m",
        severity="warning",
        audience="platform",
        summary="Engine activity is known for {{ $value | humanizePercentage }} of the held GPUs",
        description="Utilisation and waste are unknown for the rest, not zero. Another tool may hold "
        "the profiling counters, or an exporter is down.",
        dashboard=_STACK,
        labels=("cluster",),
    )


def _owners() -> Iterator[Alert]:
    yield Alert(
        name="GpusUnattributed",
        expr=f'sum by (cluster) ({HELD}{{tenant="{UNATTRIBUTED}"}}) >= {UNATTRIBUTED_GPUS}',
        for_="1h",
        severity="info",
        audience="platform",
        summary="{{ $value | printf `%.1f` }} GPUs are held by workloads of no tenant",
        description="Their cost stays unbilled. Look at who holds them and add a selector to the tenant's `match`.",
        dashboard="gpuledger-tenant",
        labels=("cluster",),
    )
    yield Alert(
        name="GpuOwnersUnresolved",
        expr=f"sum by {by(*_NODE)} ({PREFIX}owner_unresolved_devices) > 0",
        for_="15m",
        severity="warning",
        audience="platform",
        summary="{{ $value }} allocated devices of {{ $labels.node }} match no GPU",
        description="The scheduler names devices that the exporter doesn't know: what holds them is not billed.",
        dashboard=_STACK,
        labels=_NODE,
    )
    yield Alert(
        name="GpuOwnerSourceDown",
        expr=f"min by {by(*_NODE, 'adapter')} ({PREFIX}owner_adapter_up) == 0",
        for_="15m",
        severity="warning",
        audience="platform",
        summary="The exporter of {{ $labels.node }} can't ask {{ $labels.adapter }} who holds GPUs",
        description="Until it can, holders are unknown. Look at the socket's or folder's permissions.",
        dashboard=_STACK,
        labels=(*_NODE, "adapter"),
    )


def _pipeline() -> Iterator[Alert]:
    yield Alert(
        name="PipelineLate",
        expr=f"time() - max(max_over_time({PREFIX}pipeline_last_success_timestamp_seconds[1h])) "
        f"> {PIPELINE_LATE_SECONDS}",
        for_="5m",
        severity="critical",
        audience="platform",
        summary="The ledger is {{ $value | humanizeDuration }} behind",
        description="No pass of the pipeline has ended well since. Run gpuledger doctor where it runs.",
        dashboard=_STACK,
        labels=(),
    )
    yield Alert(
        name="PipelineFailing",
        expr=f'sum(increase({PREFIX}pipeline_passes_total{{result="failed"}}[1h])) >= {PIPELINE_FAILURES}',
        severity="warning",
        audience="platform",
        summary="{{ $value | printf `%.0f` }} passes of the pipeline failed in an hour",
        description="Each is tried again; its log says why. Run gpuledger doctor where it runs.",
        dashboard=_STACK,
        labels=(),
    )


def _units() -> Alert:
    """Signs that a unit changed under an unchanged name, as happens with driver and exporter updates."""
    ratio = f"({_energy_rate()}) / on (cluster) sum by (cluster) (avg_over_time({NODE_POWER}[10m]))"
    energy = f"({ratio} > 2 or {ratio} < 0.5)"
    driver = f"max by (cluster) ({reading('gpu_util_ratio', DEVICE)})"
    engine = f"max by (cluster) (avg_over_time({BUSY}[10m]))"
    # A share where per cent were meant: at most 1 % although engines are busy.
    busy = f"({driver} <= 0.01 and on (cluster) {engine} > 0.3)"
    return Alert(
        name="MetricUnitDrift",
        expr=f"{labelled(energy, {'check': 'energy'})} or {labelled(busy, {'check': 'utilisation'})}",
        for_="30m",
        severity="warning",
        audience="platform",
        summary="The {{ $labels.check }} metrics contradict each other ({{ $value | printf `%.3g` }})",
        description="energy: joules a second, divided by watts, should be 1. utilisation: the driver's is at most 1 % "
        "while engines are busy. An exporter or driver update changed a unit; compare with nvidia-smi.",
        dashboard=_STACK,
        labels=("cluster", "check"),
    )


def _energy_rate() -> str:
    metric = BY_KEY["energy_joules_total"]
    ours = f"max by {by(*BOARD)} (rate({metric.name}[10m]))"
    (dcgm,) = metric.dcgm
    theirs = f"max by {by(*BOARD)} ({with_our_labels(f'rate({dcgm.name}[10m])', *BOARD)}) * {number(dcgm.scale)}"
    return f"sum by (cluster) ({ours} or {theirs})"
