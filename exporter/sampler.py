"""The clocked passes: reads every card and every owner adapter on time, whatever hangs.

Each card, each adapter and the discovery have a watched thread of their own. A pass starts them all, waits for
a deadline and goes on with what it has; scrapes are served from the last pass and never wait for one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from exporter.devices import Backend, BackendError, Device, DeviceLost, Reading
from exporter.identity import Identities
from exporter.kernel_log import KernelLog
from exporter.owners.claims import Adapter, Claims
from exporter.owners.shares import Source, settle
from exporter.snapshot import AdapterState, CardState, Snapshot
from exporter.validity import Rejections
from exporter.watched import Watched
from exporter.xid import XidCounters

_LOG = logging.getLogger(__name__)
STALE_INTERVALS: Final = 3
"""A sample older than this many intervals is not served any more."""

_DISCOVERY_SECONDS: Final = 60.0
# Starting the library afresh costs every card its profiling for one pass, so a card that stays away is looked for
# less and less often.
_REOPEN_SECONDS: Final = 60.0
_REOPEN_SECONDS_AT_MOST: Final = 600.0
_XID_WAIT_SECONDS: Final = 2.0


class Sampler:
    """Runs passes over a backend and adapters.

    Args:
        interval: seconds between passes.
        deadline: how long a pass waits for what it started; default most of the interval.
        expected: how many cards the node should have; default: all that were ever seen, or ``bound()`` if more.
        bound: the cards that the kernel driver has.
        kernel_log: tells the XIDs that the backend can't.
        wall_clock: Unix seconds, for the times of XIDs.
    """

    def __init__(
        self,
        backend: Backend,
        adapters: Sequence[Adapter] = (),
        *,
        node: str,
        interval: float = 15.0,
        deadline: float | None = None,
        expected: int | None = None,
        bound: Callable[[], Collection[str]] = frozenset,
        kernel_log: KernelLog | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.backend, self.adapters, self.node, self.interval = backend, tuple(adapters), node, interval
        self._deadline = deadline if deadline is not None else min(0.8 * interval, 10.0)
        self._expected, self._bound = expected, bound
        self._clock, self._wall_clock = clock, wall_clock
        self._known: dict[str, Device] = {}
        self._listed: set[str] = set()
        self._discovery: Watched[list[Device]] = Watched("discovery", clock)
        self._readers: dict[str, Watched[Reading]] = {}
        self._finders: dict[str, Watched[Claims]] = {
            adapter.name: Watched(f"owners-{adapter.name}", clock) for adapter in self.adapters
        }
        self._readings: dict[str, tuple[Reading, float]] = {}
        self._rejections, self._xids = Rejections(), XidCounters()
        self._xid_poll: Watched[None] = Watched("xid", clock)
        self._kernel_log, self._log_reader = kernel_log, Watched[None]("kernel-log", clock)
        self._listening = False
        self._discovered_at = self._reopened_at = float("-inf")
        self._reopen_wait = 0.0
        self._passes = self._failed_passes = 0
        self._complaints: dict[str, str] = {}

    def run(self, publish: Callable[[Snapshot], None], stop: threading.Event) -> None:
        """Passes on the clock until ``stop``; a pass that takes too long skips the beats that it missed."""
        self._listening = True
        threading.Thread(target=self._listen, args=(stop,), name="xid-listener", daemon=True).start()
        beat = self._clock()
        while not stop.is_set():
            try:
                publish(self.run_pass())
            except Exception as error:  # noqa: BLE001  a fault of one pass must not end all passes
                self._failed_passes += 1
                self._complain("pass", error)
            now = self._clock()
            beat += self.interval * max(1, -int(-(now - beat) // self.interval))
            stop.wait(max(0.0, beat - now))

    def run_pass(self) -> Snapshot:
        """One pass over everything. It returns by the deadline, whatever hangs."""
        start = self._clock()
        end = time.monotonic() + self._deadline
        self._discover(end)
        started = self._start_readers()
        identities = Identities(self._known.values())
        finders = self._start_finders(identities, evidence=False)
        if not self._listening:
            self._xid_poll.start(partial(self._collect_xids, 0.0))
        log_read = self._kernel_log is not None and self._log_reader.start(partial(self._read_log, identities))
        for uuid in started:
            self._readers[uuid].wait(end - time.monotonic())
        states = {uuid: self._collect(uuid, started) for uuid in self._known}
        finders += self._start_finders(identities, evidence=True)
        for finder in finders:
            finder.wait(end - time.monotonic())
        if not self._listening:
            self._xid_poll.wait(end - time.monotonic())
        if log_read:
            self._log_reader.wait(end - time.monotonic())
        return self._snapshot(states, identities, start)

    def close(self) -> None:
        """Let every thread end; one that hangs is left behind."""
        for worker in self._workers():
            worker.close()
        if self._kernel_log is not None and self._log_reader.busy_since is None:
            self._kernel_log.close()

    def _workers(self) -> list[Watched[Any]]:
        return [self._discovery, self._xid_poll, self._log_reader, *self._readers.values(), *self._finders.values()]

    def _listen(self, stop: threading.Event) -> None:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                self._collect_xids(_XID_WAIT_SECONDS)
            except Exception as error:  # noqa: BLE001  a listener that dies would hide every later XID
                self._complain("xid", error)
                stop.wait(self.interval)
            # A backend without events answers at once, and need not be asked all the time.
            stop.wait(max(0.0, begun + _XID_WAIT_SECONDS - time.monotonic()))

    def _collect_xids(self, timeout: float) -> None:
        events = self.backend.wait_for_xids(timeout)
        if events:
            self._xids.record(events, self._wall_clock())

    def _read_log(self, identities: Identities) -> None:
        if self._kernel_log is not None:
            heard = [uuid for uuid in list(self._known) if self.backend.hears_xids(uuid)]
            for event in self._kernel_log.read(identities, heard):
                self._xids.record([event], self._wall_clock())

    def _log_up(self) -> bool | None:
        """Whether the kernel's log is read; None: nobody asked for it."""
        if self._kernel_log is None:
            return None
        if self._log_reader.error is not None:
            self._complain("kernel-log", self._log_reader.error)
        else:
            self._complaints.pop("kernel-log", None)
        return self._log_reader.error is None and self._log_reader.busy_since is None

    def _discover(self, end: float) -> None:
        now = self._clock()
        absent = bool(self._known.keys() - self._listed) or any(
            isinstance(reader.error, DeviceLost) for reader in self._readers.values()
        )
        # A MIG layout can change from one pass to the next; the list of cards can't.
        split = any(device.mig for device in self._known.values())
        recent = now - self._discovered_at < _DISCOVERY_SECONDS and self._discovery.error is None
        if recent and not absent and not split and self.backend.up:
            return
        reopen = self._reopen_due(absent=absent, now=now)
        if not self._discovery.start(partial(self._list_devices, reopen=reopen)):
            return
        if not self._discovery.wait(end - time.monotonic()):
            return
        if self._discovery.error is not None:
            self._complain("discovery", self._discovery.error)
            self._listed = set()
            return
        self._complaints.pop("discovery", None)
        self._discovered_at = now
        devices = self._discovery.value or []
        self._listed = {device.uuid for device in devices}
        self._known.update({device.uuid: device for device in devices})

    def _reopen_due(self, *, absent: bool, now: float) -> bool:
        """Whether to start the library afresh; never while a call hangs in it."""
        if self._passes == 0 or any(reader.busy_since is not None for reader in self._readers.values()):
            return False
        if self._discovery.error is not None:
            return True  # nothing can be read anyway
        if not absent:
            self._reopen_wait = 0.0
            return False
        if now - self._reopened_at < self._reopen_wait:
            return False
        self._reopened_at = now
        self._reopen_wait = min(max(_REOPEN_SECONDS, 2 * self._reopen_wait), _REOPEN_SECONDS_AT_MOST)
        return True

    def _list_devices(self, *, reopen: bool) -> list[Device]:
        if reopen:
            self.backend.reopen()
        return self.backend.discover()

    def _start_readers(self) -> set[str]:
        started = set()
        for uuid in self._listed:
            reader = self._readers.setdefault(uuid, Watched(f"read-{uuid[:12]}", self._clock))
            if reader.start(partial(self.backend.read, self._known[uuid])):
                started.add(uuid)
        return started

    def _collect(self, uuid: str, started: set[str]) -> str:
        """The card's state after this pass; keeps its reading if there is a new one."""
        if uuid not in self._listed:
            self._readings.pop(uuid, None)
            return "missing"
        reader = self._readers[uuid]
        if reader.busy_since is not None:
            return "stalled"
        if uuid not in started:
            # It hung when the pass began and came back since: its reading is of the past, the next one counts.
            return "stalled"
        if reader.error is not None:
            # What a lost card did before is history: only a hanging call leaves its last values standing.
            self._readings.pop(uuid, None)
            self._complain(uuid, reader.error)
            return "lost"
        if reader.value is not None:
            self._complaints.pop(uuid, None)
            self._rejections.clean(reader.value)
            self._readings[uuid] = (reader.value, reader.finished_at or self._clock())
        return "up"

    def _start_finders(self, identities: Identities, *, evidence: bool) -> list[Watched[Claims]]:
        """Start the adapters; one that hangs since an earlier pass is not waited for again."""
        readings = {uuid: reading for uuid, (reading, _) in self._readings.items()}
        return [
            finder
            for adapter in self.adapters
            if adapter.evidence == evidence
            and (finder := self._finders[adapter.name]).start(partial(adapter.find, identities, readings))
        ]

    def _snapshot(self, states: dict[str, str], identities: Identities, start: float) -> Snapshot:
        now = self._clock()
        sources, adapters = [], []
        for adapter in self.adapters:
            finder = self._finders[adapter.name]
            fresh = finder.finished_at is not None and now - finder.finished_at <= STALE_INTERVALS * self.interval
            claims = finder.value if fresh and finder.error is None else None
            if finder.error is not None:
                self._complain(adapter.name, finder.error)
            elif claims is not None:
                self._complaints.pop(adapter.name, None)
            adapters.append(AdapterState(adapter.name, claims is not None, len(claims.unresolved) if claims else 0))
            if claims is not None:
                sources.append(Source(adapter.name, claims.claims, adapter.evidence, claims.slots))
        shares, conflicts = settle(sources, identities)
        cards = [self._card(device, states[device.uuid], now) for device in self._sorted()]
        found = self._discovery.error is None and self._discovery.finished_at is not None
        good = found and (not cards or any(card.up for card in cards))
        self._passes += 1
        self._failed_passes += not good
        return Snapshot(
            node=self.node,
            backend=self.backend.name,
            backend_up=found and self.backend.up,
            driver_version=self.backend.driver_version,
            cards=cards,
            expected=max(len(self._known), len(self._bound())) if self._expected is None else self._expected,
            shares=shares,
            conflicts=conflicts,
            adapters=adapters,
            xids=self._xids.tallies(),
            rejected=self._rejected(),
            passes=self._passes,
            failed_passes=self._failed_passes,
            stalled=sum(worker.busy_since is not None for worker in self._workers()),
            pass_seconds=now - start,
            good=good,
            at=self._wall_clock(),
            kernel_log_up=self._log_up(),
            restart_needed=isinstance(self._discovery.error, BackendError) and self._discovery.error.restart,
        )

    def _rejected(self) -> dict[tuple[str, str], int]:
        """What was dropped, by metric and reason."""
        lines = self._kernel_log.rejected() if self._kernel_log is not None else {}
        xids = lines | ({"impossible_code": count} if (count := self._xids.rejected()) else {})
        return dict(self._rejections.counts) | {("xid_errors_total", reason): count for reason, count in xids.items()}

    def _sorted(self) -> list[Device]:
        return sorted(self._known.values(), key=lambda device: (device.index, device.uuid))

    def _card(self, device: Device, state: str, now: float) -> CardState:
        reading, sampled_at = self._readings.get(device.uuid, (None, None))
        if reading is None or sampled_at is None or now - sampled_at > STALE_INTERVALS * self.interval:
            values, instance_values, capabilities = {}, {}, {}
        else:
            values, instance_values, capabilities = reading.values, reading.instance_values, reading.capabilities
        values = dict(values)
        values["xid_last_code"] = float(self._xids.last_code(device.uuid))
        return CardState(device, state, sampled_at, values, instance_values, capabilities)

    def _complain(self, about: str, error: Exception) -> None:
        """Log a trouble once, until it changes or goes away."""
        text = f"{type(error).__name__}: {error}"
        if self._complaints.get(about) != text:
            self._complaints[about] = text
            # Errors of a card begin with its UUID, those of a file with its path.
            _LOG.warning("%s", error if str(error).startswith(f"{about}:") else f"{about}: {error}")
