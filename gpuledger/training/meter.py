"""The step meter: a loop tells it of batches, steps and epochs, and it exposes them as Prometheus metrics."""

from __future__ import annotations

import atexit
import logging
import math
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from exporter.training_metrics import TRAINING_METRICS
from gpuledger.training.cards import current_card
from gpuledger.training.counts import Counts
from gpuledger.training.exports import Export, exporting
from gpuledger.training.identity import identity, local_rank, world_size
from gpuledger.training.peaks import Precision, peak_flops

EXPORT_VARIABLE: Final = "GPULEDGER_TRAINING_EXPORT"
T = TypeVar("T")

_log: Final = logging.getLogger("gpuledger.training")
_meters: Final[weakref.WeakSet[StepMeter]] = weakref.WeakSet()


class StepMeter(Collector):
    """Counts one rank's steps, samples, waits and FLOPs, and exposes them.

    None of its methods raises what goes wrong inside it; errors of the loop itself pass through. It may be used from
    several threads. In a forked child it starts at zero and exports nothing until `export` is called there.

    Args:
        run: name of the run; None: Slurm's name of the job.
        flops_per_sample, flops_per_token: model FLOPs, forward and backward; without one, and without ``flops=`` at
            each step, FLOPs and MFU are unknown.
        precision: of the matrix products; it decides which peak MFU is of.
        card: the GPU's name as the driver writes it; None: PyTorch is asked at the first step.
        cards: GPUs that this rank uses.
        export: where to: ``http:PORT``, ``textfile:FOLDER``, ``push:URL``; None: $GPULEDGER_TRAINING_EXPORT.
        environ, clock, now: the process's environment, monotonic seconds and Unix time.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        flops_per_sample: float | None = None,
        flops_per_token: float | None = None,
        precision: Precision = "bf16",
        card: str | None = None,
        cards: int = 1,
        export: str | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        now: Callable[[], float] = time.time,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.labels = identity(environ, run=run)
        self.registry = CollectorRegistry()
        self._per_sample, self._per_token = flops_per_sample, flops_per_token
        self._precision: Precision = precision
        self._card, self._cards = card, cards
        self._local_rank, self._world_size = local_rank(environ), world_size(environ)
        self._clock, self._now = clock, now
        self._counts = Counts(clock)
        self._started, self._last_step = now(), 0.0
        self._known = False
        self._export: Export | None = None
        self._step_since = self.elapsed()
        self._complained: set[str] = set()
        self._after_step: list[Callable[[], None]] = []
        self.registry.register(self)
        _meters.add(self)
        wanted = export or environ.get(EXPORT_VARIABLE)
        if wanted:
            self.export(wanted)

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield a loader's batches; the time in its ``next`` is data wait, its end the end of an epoch."""
        began = self._clock()
        source = iter(loader)  # workers start here, and the loop waits for them
        while True:
            try:
                batch = next(source)
            except StopIteration:
                break
            self._add(data_wait_seconds=self._clock() - began)
            yield batch
            began = self._clock()
        self.epoch()

    def step(self, *, samples: float | None = None, tokens: float | None = None, flops: float | None = None) -> Step:
        """Return what to do a step in: ``with meter.step(samples=32):``. A step that raises isn't counted."""
        return Step(self, samples, tokens, flops)

    def waiting(self) -> Timed:
        """Return what to wait for data in, where `batches` doesn't fit."""
        return Timed(self, "data_wait_seconds")

    def checkpointing(self) -> Timed:
        """Return what to write a checkpoint in, as far as the loop waits for it."""
        return Timed(self, "checkpoint_seconds")

    def communicating(self) -> Communicating:
        """Return what to run a collective in that is over when it returns."""
        return Communicating(self)

    def communication_begins(self) -> None:
        """Note that a collective took off; several may be in flight."""
        self._counts.begin()

    def communication_ends(self) -> None:
        """Note that a collective came back."""
        self._counts.end()

    def communicated(self, seconds: float) -> None:
        """Add time with a collective in flight that was measured elsewhere, on the GPU for one."""
        self._add(communication_seconds=seconds)

    def epoch(self) -> None:
        """Count a pass over the data."""
        self._add(epochs=1)

    def step_done(
        self,
        seconds: float,
        *,
        samples: float | None = None,
        tokens: float | None = None,
        flops: float | None = None,
    ) -> None:
        """Count a step that took `seconds` without waiting for data."""
        try:
            amounts = {"steps": 1.0} | self._amounts(step_seconds=seconds, samples=samples, tokens=tokens)
            done = self._flops(amounts) if flops is None else flops
            self._counts.add(**amounts | self._amounts(floating_point_operations=done))
            self._last_step = self._now()
            if not self._known:
                self._look_up()
            for look in self._after_step:
                look()
        except Exception as error:  # noqa: BLE001  nothing that goes wrong here may end a training
            self.complain("step", error)

    def step_begins(self) -> None:
        """Begin a step, where a framework calls back at its two ends."""
        self._step_since = self.elapsed()

    def step_ends(
        self, *, samples: float | None = None, tokens: float | None = None, flops: float | None = None
    ) -> None:
        """Count the step since `step_begins`, or since the one before where nothing said that it began."""
        ended, waited = now = self.elapsed()
        began, waited_before = self._step_since
        self._step_since = now
        self.step_done(ended - began - (waited - waited_before), samples=samples, tokens=tokens, flops=flops)

    def after_step(self, look: Callable[[], None]) -> None:
        """Have something called after each step; what it raises is said once."""
        self._after_step.append(look)

    def elapsed(self) -> tuple[float, float]:
        """Return the clock and how much of it went into waiting for data so far."""
        return self._clock(), self._counts.total("data_wait_seconds")

    def export(self, to: str) -> None:
        """Expose the metrics in another place than before: ``http:PORT``, ``textfile:FOLDER``, ``push:URL``.

        Several ranks of one node listen on PORT + local rank.
        """
        try:
            self._stop()
            self._export = exporting(to, self.registry, self.labels, self._local_rank, self.complain)
        except Exception as error:  # noqa: BLE001  as in step_done
            self.complain("export", error)

    def close(self) -> None:
        """Export once more, and stop."""
        try:
            self._stop()
        except Exception as error:  # noqa: BLE001  as in step_done
            self.complain("export", error)

    def complain(self, about: str, error: Exception) -> None:
        """Say what went wrong, once per thing."""
        if about not in self._complained:
            self._complained.add(about)
            _log.warning("%s: %s: %s; training goes on, this is said once", about, type(error).__name__, error)

    def collect(self) -> Iterator[Metric]:
        """Yield what is known; of the counts nothing before the first step, when the GPU isn't known yet."""
        values: dict[str, float | None] = {"start_time_seconds": self._started, "world_size": self._world_size}
        if self._known:
            peak = self._peak()
            speed = self._counts.flops_per_second()
            values |= self._counts.totals()
            values |= {"last_step_time_seconds": self._last_step, "peak_flops": peak}
            values["mfu_ratio"] = speed / peak if speed is not None and peak else None
        names = tuple(self.labels)
        for metric in TRAINING_METRICS:
            value = values.get(metric.key)
            if value is not None:
                family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                row = family(metric.name, metric.help, labels=names)
                row.add_metric(tuple(self.labels.values()), value)
                yield row

    def forget(self) -> None:
        """Begin anew in a forked child: what was counted, and where it is exported, is the parent's."""
        if self._export is not None:
            self._export.abandon()
            self._export = None
        self._counts.restart()
        self._known = False
        self._started, self._step_since = self._now(), self.elapsed()

    def _add(self, **amounts: float) -> None:
        self._counts.add(**self._amounts(**amounts))

    def _amounts(self, **given: float | None) -> dict[str, float]:
        """Return what can be added to a total that only grows; the rest is said once, and left out."""
        amounts: dict[str, float] = {}
        for key, value in given.items():
            if value is None:
                continue
            try:
                amount = float(value)
            except (TypeError, ValueError, OverflowError) as error:
                self.complain(key, error)
                continue
            if amount >= 0 and math.isfinite(amount):
                amounts[key] = amount
            else:
                self.complain(key, ValueError(f"{amount} is no amount"))
        return amounts

    def _flops(self, amounts: Mapping[str, float]) -> float | None:
        if self._per_token is not None and "tokens" in amounts:
            return self._per_token * amounts["tokens"]
        if self._per_sample is not None and "samples" in amounts:
            return self._per_sample * amounts["samples"]
        return None

    def _peak(self) -> float | None:
        one = peak_flops(self._card, self._precision) if self._card else None
        return None if one is None else one * self._cards

    def _look_up(self) -> None:
        """Ask PyTorch, once, for the card that it works on: by the first step it knows."""
        self._known = True
        name, uuid = current_card()
        self._card = self._card or name
        if uuid is not None:
            self.labels.setdefault("uuid", uuid)

    def _stop(self) -> None:
        if self._export is not None:
            running, self._export = self._export, None
            running.stop()


class Step:
    """A step under way; what is only known inside may be set: ``step.tokens = …``."""

    __slots__ = ("_began", "_meter", "_waited", "flops", "samples", "tokens")

    def __init__(self, meter: StepMeter, samples: float | None, tokens: float | None, flops: float | None) -> None:
        self._meter, self.samples, self.tokens, self.flops = meter, samples, tokens, flops
        self._began, self._waited = meter.elapsed()

    def __enter__(self) -> Self:
        self._began, self._waited = self._meter.elapsed()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            ended, waited = self._meter.elapsed()
            seconds = ended - self._began - (waited - self._waited)
            self._meter.step_done(seconds, samples=self.samples, tokens=self.tokens, flops=self.flops)


class Timed:
    """Time that goes into one total, also where it ends in an error."""

    __slots__ = ("_began", "_key", "_meter")

    def __init__(self, meter: StepMeter, key: str) -> None:
        self._meter, self._key = meter, key

    def __enter__(self) -> None:
        self._began, _ = self._meter.elapsed()

    def __exit__(self, *error: object) -> None:
        self._meter._add(**{self._key: self._meter.elapsed()[0] - self._began})  # noqa: SLF001  one thing, two classes


class Communicating:
    """A collective under way."""

    __slots__ = ("_meter",)

    def __init__(self, meter: StepMeter) -> None:
        self._meter = meter

    def __enter__(self) -> None:
        self._meter.communication_begins()

    def __exit__(self, *error: object) -> None:
        self._meter.communication_ends()


def _forget_all() -> None:
    for meter in list(_meters):
        meter.forget()


def _close_all() -> None:
    for meter in list(_meters):
        meter.close()


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
