"""What is free, out of use and promised, as gauges on the daemon's own ``/metrics``: for Grafana and alerts.

They say what `gpuledger availability` says, as of the last pass. Before the first they are absent, not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from pipelines.availability import Availability, ModelNow, Promise

STATES = ("held", "free", "down", "stranded", "unknown")


class CapacityMetrics(Collector):
    """Exposes the last answer that it was shown."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.known: Availability | None = None
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Nothing: what there is depends on the fleet."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """The gauges of the last answer."""
        known = self.known
        if known is None:
            return
        yield _gauge("at_timestamp_seconds", "The instant that the gauges of capacity speak of.", known.at.timestamp())
        yield from _of_models(known.models)
        yield from _of_promises(known.reservations)
        out = _family("troubled_cards", "Cards of a node that are degraded, down or in repair.", "cluster node state")
        wrong = Counter((t.cluster or "", t.node or "", t.state) for t in known.trouble if t.state != "ok")
        for labels, count in sorted(wrong.items()):
            out.add_metric(labels, count)
        yield out


def _of_models(models: list[ModelNow]) -> Iterator[Metric]:
    cards = _family("cards", "Cards of a model by what they are now; parts of cards count as parts.", "model state")
    whole = _family("whole_free_cards", "Cards of a model that are free as a whole.", "model")
    block = _family("largest_block_cards", "Most whole free cards of a model on one node.", "model")
    for model in models:
        named = model.model or ""
        for state in STATES:
            cards.add_metric([named, state], getattr(model, state))
        whole.add_metric([named], model.free_whole)
        block.add_metric([named], model.largest_block)
    yield from (cards, whole, block)


def _of_promises(promises: list[Promise]) -> Iterator[Metric]:
    labels = "reservation source tenant model"
    gpus = _family("reservation_gpus", "GPUs of a reservation that runs or is to come within two weeks.", labels)
    start = _family("reservation_start_timestamp_seconds", "When it begins, in Unix time.", labels)
    end = _family("reservation_end_timestamp_seconds", "When it ends, in Unix time.", labels)
    fits = _family("reservation_fits", "Whether it can be kept.", labels)
    named: dict[tuple[str, str, str, str], list[Promise]] = {}
    for promise in promises:
        # Two clusters may call their reservations alike, and one series has one value.
        key = (promise.id, promise.source, promise.tenant or "", promise.model or "")
        named.setdefault(key, []).append(promise)
    for values, alike in sorted(named.items()):
        gpus.add_metric(values, sum(p.gpus for p in alike))
        start.add_metric(values, min(p.from_ for p in alike).timestamp())
        end.add_metric(values, max(p.to for p in alike).timestamp())
        fits.add_metric(values, all(p.fits for p in alike))
    yield from (gpus, start, end, fits)


def _family(key: str, text: str, labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"gpuledger_capacity_{key}", text, labels=labels.split())


def _gauge(key: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"gpuledger_capacity_{key}", text, value=value)
