"""The NVML backend: every catalogue metric that a card supports, through nvidia-ml-py."""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import pynvml

from exporter.devices import BackendError, Device, GpuInstance, MigDevice, Reading, XidEvent
from exporter.nvml_fields import Unwrappers, unwrappers
from exporter.nvml_probe import CardProbe
from exporter.pcie_follower import PcieFollower
from exporter.watched import Watched

_XID_CRITICAL: Final = 8
_NO_INSTANCE: Final = 0xFFFFFFFF
_PATIENCE_SECONDS: Final = 5.0
_T = TypeVar("_T")


class NvmlBackend:
    """Reads cards through ``api``, which is the ``pynvml`` module or an object with its functions.

    Args:
        follow_pcie: read PCIe byte counters that wrap, and that no profiling tells the rate of, between the passes.
    """

    name = "nvml"
    up = True

    def __init__(
        self, api: Any = pynvml, *, follow_pcie: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._follow_pcie, self._clock = api, follow_pcie, clock
        self._probes: dict[str, tuple[Device, CardProbe]] = {}
        self._handles: dict[str, Any] = {}
        # Byte counters outlive probes and the library: a total that fell would look like traffic.
        self._followed: dict[str, Unwrappers] = {}
        self._followers: dict[str, PcieFollower] = {}
        self._event_set: Any = None
        self._heard: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        # Held while a thread waits for events: the library must not be shut down, nor the set freed, under it.
        self._waiting = threading.Lock()
        self._describers: dict[int, Watched[tuple[Any, Device]]] = {}
        self.driver_version = ""
        self._start()

    def _start(self) -> None:
        try:
            self._api.nvmlInit()
            self.driver_version = _text(self._api.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            mend = "install the NVIDIA driver, or use --fake FLEET.yaml"
            raise BackendError(f"NVML: {error}; {mend}", restart=_replaced(error)) from error

    def discover(self) -> list[Device]:
        """The cards that answer, with their MIG layout; one that doesn't answer is left out."""
        try:
            count = self._api.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise BackendError(f"NVML: {error}", restart=_replaced(error)) from error
        devices, handles = [], {}
        for handle, device in self._described(count):
            devices.append(device)
            handles[device.uuid] = handle
        with self._lock:
            self._handles = handles
            self._probes = {uuid: kept for uuid, kept in self._probes.items() if uuid in handles}
        self._listen(handles)
        return devices

    def _described(self, count: int) -> Iterator[tuple[Any, Device]]:
        """Ask every card at once, each in a thread of its own: one that hangs hides no other.

        It stays as it was last described, if it ever was.
        """
        workers = [self._describers.setdefault(index, Watched(f"describe-{index}")) for index in range(count)]
        asked = [worker.start(partial(self._describe, index)) for index, worker in enumerate(workers)]
        end = time.monotonic() + _PATIENCE_SECONDS
        for worker, started in zip(workers, asked, strict=True):
            if started and worker.wait(end - time.monotonic()) and worker.error is not None:
                if not isinstance(worker.error, pynvml.NVMLError):
                    raise worker.error
            elif worker.value is not None:
                yield worker.value

    def _describe(self, index: int) -> tuple[Any, Device]:
        api = self._api
        handle = api.nvmlDeviceGetHandleByIndex(index)
        mig = _or_none(lambda: api.nvmlDeviceGetMigMode(handle)[0]) == 1
        return handle, Device(
            uuid=_text(api.nvmlDeviceGetUUID(handle)),
            index=index,
            minor=_or_none(lambda: int(api.nvmlDeviceGetMinorNumber(handle))),
            pci_bus_id=_text(api.nvmlDeviceGetPciInfo(handle).busId).upper(),
            model=_text(api.nvmlDeviceGetName(handle)),
            serial=_or_none(lambda: _text(api.nvmlDeviceGetSerial(handle))) or "",
            mig=mig,
            instances=self._instances(handle) if mig else (),
            vbios=_or_none(lambda: _text(api.nvmlDeviceGetVbiosVersion(handle))) or "",
            inforom=_or_none(lambda: _text(api.nvmlDeviceGetInforomImageVersion(handle))) or "",
        )

    def _instances(self, handle: Any) -> tuple[GpuInstance, ...]:
        members: dict[int, list[MigDevice]] = {}
        profiles: dict[int, str] = {}
        for mig_handle in self._mig_handles(handle):
            gpu_instance = int(self._api.nvmlDeviceGetGpuInstanceId(mig_handle))
            compute = _or_none(lambda: str(self._api.nvmlDeviceGetComputeInstanceId(mig_handle)))  # noqa: B023
            uuid = _text(self._api.nvmlDeviceGetUUID(mig_handle))
            members.setdefault(gpu_instance, []).append(MigDevice(uuid, compute or "0"))
            profiles.setdefault(gpu_instance, mig_profile(_text(self._api.nvmlDeviceGetName(mig_handle))))
        return tuple(GpuInstance(str(number), profiles[number], tuple(members[number])) for number in sorted(members))

    def _mig_handles(self, handle: Any) -> list[Any]:
        count = _or_none(lambda: int(self._api.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
        handles = []
        for index in range(count):
            try:
                handles.append(self._api.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
            except pynvml.NVMLError:  # an empty slot
                continue
        return handles

    def read(self, device: Device) -> Reading:
        """One pass over one card. Raises DeviceLost."""
        with self._lock:
            known, probe = self._probes.get(device.uuid, (None, None))
            handle = self._handles.get(device.uuid)
        if probe is None or known != device:
            # A new MIG layout changes what the card supports, so its capabilities are found afresh.
            if probe is not None:
                probe.close()
            if follower := self._followers.pop(device.uuid, None):
                follower.stop()
            handles = self._mig_handles(handle) if device.mig else []
            followed = self._followed.setdefault(device.uuid, unwrappers())
            probe = CardProbe(self._api, handle, device, self._first_of_each_instance(handles), self._clock, followed)
            with self._lock:
                self._probes[device.uuid] = (device, probe)
        reading = probe.read()
        reading.capabilities["xid_events"] = self.hears_xids(device.uuid)
        if self._follow_pcie and probe.fields.narrow_pcie and not reading.capabilities["profiling"]:
            self._follow(device.uuid, probe)
        return reading

    def _follow(self, uuid: str, probe: CardProbe) -> None:
        with self._lock:
            follower = self._followers.get(uuid)
            if follower is None or not follower.alive:
                self._followers[uuid] = PcieFollower(uuid, probe.fields)

    def _first_of_each_instance(self, mig_handles: list[Any]) -> dict[str, Any]:
        first: dict[str, Any] = {}
        for mig_handle in mig_handles:
            first.setdefault(str(self._api.nvmlDeviceGetGpuInstanceId(mig_handle)), mig_handle)
        return first

    def _listen(self, handles: dict[str, Any]) -> None:
        """Ask for XIDs of cards that are new; drivers without events (Windows, some vGPUs) have none to give.

        One event set serves until the library is shut down: with a second one an XID could be counted twice.
        """
        with contextlib.suppress(pynvml.NVMLError):
            if self._event_set is None:
                self._event_set = self._api.nvmlEventSetCreate()
        for uuid in handles.keys() - self._heard if self._event_set is not None else ():
            with contextlib.suppress(pynvml.NVMLError):
                if self._api.nvmlDeviceGetSupportedEventTypes(handles[uuid]) & _XID_CRITICAL:
                    self._api.nvmlDeviceRegisterEvents(handles[uuid], _XID_CRITICAL, self._event_set)
                    self._heard |= {uuid}

    def hears_xids(self, uuid: str) -> bool:
        """Whether XIDs of a card arrive as events."""
        return uuid in self._heard and uuid in self._handles

    def wait_for_xids(self, timeout_seconds: float) -> list[XidEvent]:
        """XIDs that arrived; waits up to the timeout for the first."""
        with self._waiting:
            return self._wait(int(timeout_seconds * 1000))

    def _wait(self, timeout: int) -> list[XidEvent]:
        events: list[XidEvent] = []
        event_set = self._event_set
        while event_set is not None:
            try:
                event = self._api.nvmlEventSetWait_v2(event_set, timeout)
            except pynvml.NVMLError:
                return events
            uuid = self._uuid_of(event.device)
            if uuid and event.eventType & _XID_CRITICAL:
                instance = None if event.gpuInstanceId >= _NO_INSTANCE else str(event.gpuInstanceId)
                events.append(XidEvent(uuid, int(event.eventData), instance))
            timeout = 0
        return events

    def _uuid_of(self, handle: Any) -> str | None:
        # A card that was just lost no longer tells its UUID, but its handle is one of those known.
        for uuid, known in self._handles.items():
            if known is handle or (_address(known) is not None and _address(known) == _address(handle)):
                return uuid
        return _or_none(lambda: _text(self._api.nvmlDeviceGetUUID(handle)))

    def reopen(self) -> None:
        """Start the driver library afresh, so that a card that came back is seen; not while a call hangs in it."""
        if any(worker.busy_since is not None for worker in self._describers.values()):
            return
        if not self._close():
            raise BackendError("NVML: a wait for events hangs, so the library can't be started afresh")
        self._start()

    def close(self) -> None:
        """Release the library, unless a call hangs in it."""
        for worker in self._describers.values():
            worker.close()
        self._close()

    def _close(self) -> bool:
        self._followers = {uuid: follower for uuid, follower in self._followers.items() if not follower.stop()}
        if self._followers:
            return False
        if not self._waiting.acquire(timeout=_PATIENCE_SECONDS):
            return False
        try:
            with self._lock:
                probes, event_set = [probe for _, probe in self._probes.values()], self._event_set
                self._probes, self._handles, self._event_set, self._heard = {}, {}, None, frozenset()
            for probe in probes:
                probe.close()
            if event_set is not None:
                with contextlib.suppress(pynvml.NVMLError):
                    self._api.nvmlEventSetFree(event_set)
            with contextlib.suppress(pynvml.NVMLError):
                self._api.nvmlShutdown()
        finally:
            self._waiting.release()
        return True


def mig_profile(name: str) -> str:
    """The GPU instance's profile in a MIG device's name: "NVIDIA A100 MIG 1c.3g.20gb" → "3g.20gb"."""
    match = re.search(r"MIG (?:\d+c\.)?(\S+)$", name)
    return match[1] if match else ""


def _or_none(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except pynvml.NVMLError:
        return None


def _replaced(error: pynvml.NVMLError) -> bool:
    return bool(error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)


def _text(value: str | bytes) -> str:
    # nvidia-ml-py before version 12 returns bytes.
    return value.decode() if isinstance(value, bytes) else value


def _address(handle: Any) -> int | None:
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except (TypeError, ctypes.ArgumentError):
        return None
