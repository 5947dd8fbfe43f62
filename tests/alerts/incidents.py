"""A day on which things went wrong, minute by minute, with what should have been said of it and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
DAY = 24 * 60

# node, gpu, model, namespace of the holder ("" for none)
CARDS = [
    ("n1", 0, H100, "speech"), ("n1", 1, H100, "speech"),
    ("n2", 0, H100, "vision-a"), ("n2", 1, H100, "vision-a"),
    ("n3", 0, H100, "vision-a"), ("n3", 1, A100, "vision-a"),
    ("n4", 0, H100, ""), ("n4", 1, H100, ""), ("n4", 2, A100, ""), ("n4", 3, A100, ""),
]  # fmt: skip


@dataclass(frozen=True)
class Incident:
    """One thing that went wrong, and an alert that it should have raised.

    Args:
        fires: first and last minute of the day in which the alert fires.
        labels: of the alert, besides severity and audience.
    """

    what: str
    alert: str
    fires: tuple[int, int]
    labels: dict[str, str] = field(default_factory=dict)


def card(node: str, gpu: int, model: str = H100) -> dict[str, str]:
    """The labels of a card."""
    return {"node": node, "gpu": str(gpu), "uuid": f"GPU-{node}-{gpu}", "model": model}


INCIDENTS = [
    Incident("XID 79 on n1/0 at 02:00", "GpuXidRestartNode", (120, 134), card("n1", 0) | {"xid": "79"}),
    Incident("XID 31 in vision's program on n2/1 at 03:00", "GpuXidApplication", (180, 194),
             card("n2", 1) | {"tenant": "vision"}),
    Incident("a row remap waits on n2/0 from 04:00 to 06:00", "GpuRowRemapPending", (240, 365),
             card("n2", 0) | {"state": "row_remap_pending"}),
    Incident("n3/1 disappears from 07:00 to 08:00", "GpuMissing", (425, 479), {"node": "n3"}),
    Incident("n1's exporter is down from 09:00 to 09:40", "GpuExporterDown", (545, 579),
             {"node": "n1", "job": "gpuledger-exporter"}),
    Incident("… so none of its cards reports (Alertmanager holds this back)", "GpuNodeDown", (550, 579),
             {"node": "n1"}),
    Incident("n2/0 is hot and slow from 11:00 to 11:30", "GpuThermalThrottling", (669, 695),
             card("n2", 0) | {"condition": "thermal_throttle"}),
    Incident("two ECC errors on n3/0 at 12:00", "GpuEccUncorrected", (720, 734), card("n3", 0)),
    Incident("the pipeline stands still from 13:00 to 15:00", "PipelineLate", (846, 899)),
    Incident("the driver of n3 stops answering from 16:00 to 16:30", "GpuDriverUnavailable", (966, 989),
             {"node": "n3"}),
    Incident("… so none of its cards answers (Alertmanager holds this back)", "GpuNodeDown", (970, 989),
             {"node": "n3"}),
    Incident("vision's four cards idle from 18:00 to 21:00", "TenantGpusIdle", (1167, 1272), {"tenant": "vision"}),
]  # fmt: skip

Value = Callable[[int], float | None]


def series() -> dict[str, str]:
    """The day in promtool's notation: values by series, "_" where there is none, a stale marker where one ends."""
    return {name: _notation(value) for name, value in _series()}


def _series() -> Iterator[tuple[str, Value]]:
    for node in sorted({node for node, *_ in CARDS}):
        yield from _node(node)
    for node, gpu, model, namespace in CARDS:
        yield from _card(node, gpu, model, namespace)
    yield "gpuledger_pipeline_last_success_timestamp_seconds", lambda t: 60 * (t if not 780 <= t < 900 else 780)
    yield 'gpuledger_pipeline_passes_total{result="failed"}', lambda _: 0


def _scraped(node: str, value: Value) -> Value:
    """Nothing of n1 while its exporter is down."""
    return lambda t: None if node == "n1" and 540 <= t < 580 else value(t)


def _node(node: str) -> Iterator[tuple[str, Value]]:
    target = f'job="gpuledger-exporter",instance="{node}:9836"'
    yield f"up{{{target}}}", lambda t: 0 if node == "n1" and 540 <= t < 580 else 1
    count = sum(name == node for name, *_ in CARDS)
    driver: Value = lambda t: 0 if node == "n3" and 960 <= t < 990 else 1  # noqa: E731  as its neighbours
    for key, value in (
        ("devices_expected", lambda _: count),
        ("backend_up", driver),
        ("owner_unresolved_devices", lambda _: 0),
        ("owner_adapter_up", lambda _: 1),
    ):
        yield f'gpuledger_{key}{{node="{node}",{target}}}', _scraped(node, value)


def _card(node: str, gpu: int, model: str, namespace: str) -> Iterator[tuple[str, Value]]:
    on = ",".join(f'{name}="{value}"' for name, value in card(node, gpu, model).items())
    on += f',job="gpuledger-exporter",instance="{node}:9836"'
    here = (node, gpu)

    def there(value: Value) -> Value:
        return _scraped(node, lambda t: None if here == ("n3", 1) and 420 <= t < 480 else value(t))

    def answers(t: int) -> float:
        away = here == ("n3", 1) and 420 <= t < 480
        return 0 if away or (node == "n3" and 960 <= t < 990) else 1

    def engine(t: int) -> float:
        return 0 if not namespace or (namespace == "vision-a" and 1080 <= t < 1260) else 0.9

    yield f"gpuledger_device_up{{{on}}}", _scraped(node, answers)
    yield f"gpuledger_unowned_share_ratio{{{on}}}", there(lambda _: 0 if namespace else 1)
    if namespace:
        yield f'gpuledger_owner_share_ratio{{{on},namespace="{namespace}",pod="p"}}', there(lambda _: 1)
    for key, value in (
        ("engine_active_ratio", engine),
        ("gpu_util_ratio", engine),
        ("sample_age_seconds", lambda _: 3),
        ("power_watts", lambda _: 400),
        ("energy_joules_total", lambda t: 24_000 * t),
        ("memory_temperature_celsius", lambda _: 70),
        ("throttle_reasons_bitmask", lambda t: 64 if here == ("n2", 0) and 660 <= t < 690 else 0),
        ("row_remap_pending", lambda t: 1 if here == ("n2", 0) and 240 <= t < 361 else 0),
        ("row_remap_failed", lambda _: 0),
        ("recovery_action", lambda _: 0),
        ("ecc_uncorrected_volatile_total", lambda t: 2 if here == ("n3", 0) and t >= 720 else 0),
        ("xid_last_code", lambda t: {("n1", 0): 79 if t >= 120 else 0, ("n2", 1): 31 if t >= 180 else 0}.get(here, 0)),
    ):
        yield f"gpuledger_{key}{{{on}}}", there(value)
    for where, minute, code, tier in ((("n1", 0), 120, 79, "restart_node"), (("n2", 1), 180, 31, "application")):
        if here == where:
            stamp = f'gpuledger_xid_last_timestamp_seconds{{{on},xid="{code}",class="{tier}"}}'
            yield stamp, there(lambda t, since=minute: 60 * since if t >= since else None)  # type: ignore[misc]


def _notation(value: Value) -> str:
    parts: list[str] = []
    last: float | None = None
    for minute in range(DAY + 1):
        now = value(minute)
        parts.append("_" if now is None and last is None else "stale" if now is None else f"{now:g}")
        last = now
    return " ".join(parts)
