"""Alerts on the metering itself: what isn't seen can't be billed, and must never look like zero.

They look a few minutes back, so that one scrape that fails neither ends an alert nor starts its ``for`` anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from alerts.recording.holders import UNATTRIBUTED
from alerts.rule import Alert
from exporter.catalog import PREFIX
from pipelines.promql.expressions import by, lasting
from pipelines.promql.recorded import COVERAGE, HELD, UNIT_CHECK

EXPORTER_JOBS: Final = "(?i).*(gpuledger|dcgm|gpu.?exporter).*"
"""Scrape jobs of the exporters."""
STALE_SECONDS: Final = 300
COVERAGE_LEAST: Final = 0.95
PIPELINE_LATE_SECONDS: Final = 3600
PIPELINE_FAILURES: Final = 3
UNATTRIBUTED_GPUS: Final = 1
# Energy lags power by a scrape, and one busy SM makes the driver's utilisation 100 %: a unit is off by far more.
DRIFT_MOST: Final = 20
DRIFT_LEAST: Final = 0.2

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
        expr=f"max by {by(*_NODE)} (max_over_time({PREFIX}backend_up[5m])) == 0",
        for_="1m",
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
        expr=f"max by {by(*_NODE)} (last_over_time({PREFIX}sample_age_seconds[5m])) > {STALE_SECONDS}",
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
        expr=f"{lasting(COVERAGE.name)} < {COVERAGE_LEAST}",
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
        expr=f'sum by (cluster) (last_over_time({HELD}{{tenant="{UNATTRIBUTED}"}}[5m])) >= {UNATTRIBUTED_GPUS}',
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
        expr=f"sum by {by(*_NODE)} (min_over_time({PREFIX}owner_unresolved_devices[15m])) > 0",
        for_="5m",
        severity="warning",
        audience="platform",
        summary="{{ $value }} allocated devices of {{ $labels.node }} match no GPU",
        description="The scheduler names devices that the exporter doesn't know: what holds them is not billed.",
        dashboard=_STACK,
        labels=_NODE,
    )
    yield Alert(
        name="GpuOwnerSourceDown",
        expr=f"max by {by(*_NODE, 'adapter')} (max_over_time({PREFIX}owner_adapter_up[15m])) == 0",
        for_="5m",
        severity="warning",
        audience="platform",
        summary="The exporter of {{ $labels.node }} can't ask {{ $labels.adapter }} who holds GPUs",
        description="Until it can, holders are unknown. Look at the socket's or folder's permissions.",
        dashboard=_STACK,
        labels=(*_NODE, "adapter"),
    )

    yield Alert(
        name="GpuOwnersConflict",
        expr=f"count by {by(*_NODE)} (max_over_time({PREFIX}owner_conflicts[5m]) > 0)",
        for_="15m",
        severity="warning",
        audience="platform",
        summary="Sources name different holders of {{ $value }} devices of {{ $labels.node }}",
        description="One is believed and billed, the other overruled: gpuledger_owner_conflicts says which. A process "
        "may use a card that was given to somebody else.",
        dashboard=_STACK,
        labels=_NODE,
    )
    yield Alert(
        name="GpuKernelLogUnread",
        expr=f"max by {by(*_NODE)} (max_over_time({PREFIX}kernel_log_up[15m])) == 0",
        for_="5m",
        severity="warning",
        audience="platform",
        summary="The exporter of {{ $labels.node }} can't read the kernel's log",
        description="XIDs of cards that left the bus are not seen. Look at the rights on /dev/kmsg or the journal, or "
        "leave --kernel-log out.",
        dashboard=_STACK,
        labels=_NODE,
    )


def _pipeline() -> Iterator[Alert]:
    # A daemon that is gone says nothing: what it said last counts for a day.
    yield Alert(
        name="PipelineLate",
        expr=f"time() - max(max_over_time({PREFIX}pipeline_last_success_timestamp_seconds[1d])) "
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
    return Alert(
        name="MetricUnitDrift",
        expr=f"{lasting(UNIT_CHECK.name)} > {DRIFT_MOST} or {lasting(UNIT_CHECK.name)} < {DRIFT_LEAST}",
        for_="30m",
        severity="warning",
        audience="platform",
        summary="The {{ $labels.check }} metrics contradict each other ({{ $value | printf `%.3g` }}, not 1)",
        description="energy: joules a second, divided by watts. utilisation: the driver's highest, divided by the "
        "engines' highest. An exporter or driver update changed a unit; compare with nvidia-smi.",
        dashboard=_STACK,
        labels=("cluster", "check"),
    )
