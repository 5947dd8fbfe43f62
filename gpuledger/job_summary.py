"""A job's report for people: who, what, how well, at what cost, why, and what to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from gpuledger.tables import align, counted, one_line, shorten
from pipelines.analysis.tables import FEATURES
from pipelines.job.report import JobCause, JobGpu, JobReport
from pipelines.money import format_money
from pipelines.training import Progress

UNKNOWN: Final = "n/a"
SHADES: Final = "_.:-=+*#%@"
"""A tenth of busy each; the line below the time line says so."""
NOT_KNOWN: Final = "?"
_LISTED: Final = 16
_GIB: Final = 2**30
_SIGNIFICANT: Final = 4


def render(job: JobReport, zone: ZoneInfo, *, width: int) -> str:
    """Return the report as text; no trailing newline."""
    sections = [
        _heading(job, zone),
        _sums(job),
        _gpus(job, width),
        _timeline(job, zone),
        _causes(job),
        _training(job.training, job.costs, job.currency) if job.training is not None else [],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _heading(job: JobReport, zone: ZoneInfo) -> list[str]:
    lasted = job.end - job.start
    models = sorted({gpu.model or "an unknown model" for gpu in job.gpus})
    state = f"running when the cluster was last seen, {_local(job.end, zone)}"
    rows = [
        ["Job", f"{job.workload} on {job.cluster}, {state if job.state == 'last_seen_running' else job.state}"],
        ["User", job.user or UNKNOWN],
        ["Tenant", ", then ".join(job.tenants) or "none: nobody pays for it"],
        ["Account", " / ".join(x for x in (job.account, job.partition, job.qos) if x)],
        ["Nodes", ", ".join(job.nodes) or UNKNOWN],
        ["GPUs", f"{counted(len(job.gpus), 'device')}: {', '.join(models)}"],
        ["From", f"{_local(job.start, zone)} to {_local(job.end, zone)} ({zone.key}), {_lasted(lasted)}"],
        ["As of", _local(job.as_of, zone)],
    ]
    told = align([[name, one_line(value)] for name, value in rows if value], left={0, 1})
    guess = "which of its nodes' GPUs it had is a guess, so their use says nothing about it"
    return told if job.unguessed else [*told, f"Note: {guess}"]


def _sums(job: JobReport) -> list[str]:
    rows = [
        ["GPU-hours", f"{job.gpu_hours:,.2f}"],
        ["Busy", _percent(job.utilization)],
        ["Coverage", _percent(job.coverage)],
        ["Energy", UNKNOWN if job.energy_kwh is None else f"{job.energy_kwh:,.2f} kWh"],
        ["Cost", _money(job.cost, job.currency)],
        ["Waste", _money(job.waste, job.currency)],
    ]
    return align(rows, left={0})


def _gpus(job: JobReport, width: int) -> list[str]:
    columns = ["GPU", "node", "busy", "SM", "tensor", "DRAM", "memory mean", "peak", "of", "kWh", "coverage"]
    rows = [columns, *(_gpu_row(gpu, width) for gpu in job.gpus[:_LISTED])]
    more = len(job.gpus) - _LISTED
    lines = align(rows, left={0, 1})
    return [*lines, f"and {more} more; --json has all"] if more > 0 else lines


def _gpu_row(gpu: JobGpu, width: int) -> list[str]:
    return [
        shorten(_named(gpu), max(width - 92, 14)),
        shorten(gpu.node or UNKNOWN, 20),
        *(_percent(ratio) for ratio in (gpu.busy, gpu.sm, gpu.tensor, gpu.dram)),
        *(_gib(size) for size in (gpu.memory_mean, gpu.memory_peak, gpu.memory_total)),
        UNKNOWN if gpu.energy_kwh is None else f"{gpu.energy_kwh:,.2f}",
        _percent(gpu.coverage),
    ]


def _named(gpu: JobGpu) -> str:
    return "/".join(part for part in (gpu.device, gpu.instance) if part) or "unknown"


def _timeline(job: JobReport, zone: ZoneInfo) -> list[str]:
    if all(value is None for gpu in job.gpus for value in gpu.line):
        return ["Time line: its GPUs were not observed"]
    columns = len(job.gpus[0].line)
    ends = [_local(t, zone) for t in (job.start, job.start + timedelta(seconds=job.step_s * columns))]
    rule = f"{ends[0]}{ends[1].rjust(columns - len(ends[0]))}" if columns > sum(map(len, ends)) else " to ".join(ends)
    lines = [f"Time line: how busy, {_lasted(timedelta(seconds=job.step_s))} a column", f"  {rule}"]
    lines += [
        f"  {''.join(_shade(value) for value in gpu.line)}  {shorten(_named(gpu), 24)}" for gpu in job.gpus[:_LISTED]
    ]
    return [*lines, f"  from 0 % to 100 %: [{SHADES}], {NOT_KNOWN} not known"]


def _shade(value: float | None) -> str:
    return NOT_KNOWN if value is None else SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)]


def _causes(job: JobReport) -> list[str]:
    if not job.causes:
        return ["Bottleneck: not analysed; run `gpuledger run --once` to publish again"]
    lines = ["Where its time went, and what to try first"]
    for cause in job.causes:
        waste = "" if cause.waste is None else f", wasted {format_money(cause.waste, job.currency)}"
        sure = "" if cause.confidence is None else f", confidence {cause.confidence:.0%}"
        lines.append(f"  {cause.share_of_time:.1%} {cause.title}: {cause.gpu_hours:,.2f} GPU-hours{waste}{sure}")
        lines += [f"      seen: {_evidence(cause)}"] if cause.evidence else []
        lines += [f"      try: {cause.remedy}"] if cause.remedy else []
    return lines


def _evidence(cause: JobCause) -> str:
    return "; ".join(
        f"{_meaning(e['feature'])} {_value(e['value'])} {e.get('is', '')} {_value(e['limit'])}" for e in cause.evidence
    )


def _meaning(feature: str) -> str:
    names = {"idle_activity": "activity while idle", "measured_data_wait": "measured wait for data"}
    return one_line(names.get(feature) or FEATURES.get(feature, feature).split(" (")[0].split(":")[0])


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (int, float)) else one_line(str(value))


def _training(progress: Progress, costs: Mapping[str, Decimal | None], currency: str) -> list[str]:
    done = [
        f"{amount:,.0f} {what}"
        for amount, what in (
            (progress.steps, "steps"), (progress.samples, "samples"), (progress.tokens, "tokens"),
            (progress.epochs, "epochs"),
        )
        if amount is not None
    ]  # fmt: skip
    rows = [
        ["  done", ", ".join(done)],
        ["  a step takes", UNKNOWN if progress.step_seconds is None else f"{progress.step_seconds:.4g} s"],
        ["  waits for data", _percent(progress.waits)],
        ["  communication in flight", _percent(progress.communicates)],
        ["  checkpoints", _percent(progress.checkpoints)],
        ["  MFU", _percent(progress.mfu)],
        *([["  slowest rank", progress.slowest_rank]] if progress.slowest_rank else []),
        *([f"  a {unit.replace('_', ' ')} costs", _small(cost, currency)] for unit, cost in costs.items() if cost),
    ]
    runs = f" of {one_line(', '.join(progress.runs))}" if progress.runs else ""
    return [f"From inside the job: {counted(progress.ranks, 'rank')}{runs}", *align(_plain(rows), left={0, 1})]


def _plain(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[0], one_line(row[1])] for row in rows]


def _small(amount: Decimal, currency: str) -> str:
    """Return an amount with four significant digits where the currency's own would be too few."""
    if abs(amount) >= 100:
        return format_money(amount, currency)
    unit = Decimal(1).scaleb(amount.adjusted() - _SIGNIFICANT + 1)
    return f"{currency} {amount.quantize(unit, rounding=ROUND_HALF_UP):f}"


def _money(amount: Decimal | None, currency: str) -> str:
    return UNKNOWN if amount is None else format_money(amount, currency)


def _gib(size: float | None) -> str:
    return UNKNOWN if size is None else f"{size / _GIB:.1f} GiB"


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio:.1%}"


def _lasted(span: timedelta) -> str:
    minutes, seconds = divmod(round(span.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{n} {unit}" for n, unit in parts if n][:2]
    return " ".join(shown) or "0 s"


def _local(t: datetime, zone: ZoneInfo) -> str:
    return f"{t.astimezone(zone):%Y-%m-%d %H:%M}"
