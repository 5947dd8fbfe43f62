"""The DCGM backend: values from a host engine, under the same names and units as NVML's.

DCGM profiles cards that GPM can't (before Hopper). What it can't tell (MIG UUIDs, processes, XIDs as events) comes
from NVML beside it, where the driver library is there; while the host engine is down, so does everything else.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from exporter.catalog import CATALOG
from exporter.dcgm_bindings import Bindings, knock, load_bindings
from exporter.devices import Backend, BackendError, Device, DeviceLost, GpuInstance, Reading, XidEvent
from exporter.validity import is_blank

_LOG = logging.getLogger(__name__)
DEFAULT_ADDRESS: Final = "127.0.0.1:5555"
_FIRST_PROFILING_FIELD: Final = 1001
_LAST_PROFILING_FIELD: Final = 1099
_NAME_FIELD: Final = 50
_INDEX_FIELD: Final = 52
_MINOR_FIELD: Final = 55
_XID_FIELD: Final = 230
_STALE_INTERVALS: Final = 3
# PCIe throughput: KB/s in old host engines, byte counters that wrap in new ones; the value doesn't tell which.
_MISLEADING: Final = {200, 201}

# Every DCGM field of the catalogue: its metric's key and the factor to base units. A metric that has several fields
# takes the first that has a value.
_FIELDS: Final = {
    name.field_id: (metric.key, name.scale)
    for metric in CATALOG
    for name in metric.dcgm
    if name.field_id not in _MISLEADING
}


class DcgmBackend:
    """Reads cards from a host engine.

    Args:
        bindings: NVIDIA's modules.
        address: ``host:port`` or the path of a Unix socket.
        interval: seconds between passes; fields are watched at it.
        nvml: reads identities, processes and XIDs; given up where the host engine is on another machine.
        reach: raises BackendError if nobody listens at an address.
        wall_clock: Unix seconds, to tell values that a dead host engine left behind.
    """

    name = "dcgm"

    def __init__(
        self,
        bindings: Bindings,
        address: str = DEFAULT_ADDRESS,
        *,
        interval: float = 15.0,
        nvml: Backend | None = None,
        reach: Callable[[str], None] = knock,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._dcgm, self._address, self._interval, self._nvml = bindings, address, interval, nvml
        self._reach, self._wall_clock = reach, wall_clock
        self._lock = threading.Lock()
        self._cards: dict[str, tuple[Device, _Card]] = {}
        # The latched XID of each card and when it was latched, as seen and as reported.
        self._xid_seen: dict[str, tuple[int, int]] = {}
        self._reported: dict[str, tuple[int, int]] = {}
        self._watches = itertools.count(1)
        self.driver_version, self.up = "", True
        self._connect()

    @classmethod
    def connect(cls, address: str | None, *, interval: float, follow_pcie: bool = False) -> DcgmBackend:
        """A backend for the host engine at an address, the default one if None. Raises BackendError."""
        target = address or DEFAULT_ADDRESS
        knock(target)
        from exporter.nvml import NvmlBackend  # noqa: PLC0415  NVML is optional here

        nvml = None
        with contextlib.suppress(BackendError):
            nvml = NvmlBackend(follow_pcie=follow_pcie)
        return cls(load_bindings(), target, interval=interval, nvml=nvml)

    def _connect(self) -> None:
        where = {"unixSocketPath": self._address} if "/" in self._address else {"ipAddress": self._address}
        try:
            self._handle = self._dcgm.pydcgm.DcgmHandle(**where)
            self._system = self._handle.GetSystem()
        except self._dcgm.structs.DCGMError as error:
            raise self._down(error) from error

    def _down(self, error: Exception) -> BackendError:
        return BackendError(f"DCGM at {self._address}: {error}; start nv-hostengine")

    def discover(self) -> list[Device]:
        """The cards that the host engine knows, or NVML while it is down. Raises BackendError."""
        try:
            if not self.up:
                self._reconnect()
            devices = self._discover()
        except (self._dcgm.structs.DCGMError, BackendError) as error:
            self.up = False
            if self._nvml is None:
                if isinstance(error, BackendError):
                    raise
                raise self._down(error) from error
            _LOG.info("DCGM at %s: %s; reading NVML meanwhile", self._address, error)
            with self._lock:
                self._cards = {}
            return self._nvml.discover()
        self.up = True
        return devices

    def _discover(self) -> list[Device]:
        attributes = {number: self._attributes(number) for number in self._system.discovery.GetAllGpuIds()}
        hierarchy = self._hierarchy()
        uuids = {_text(found.identifiers.uuid) for found in attributes.values()}
        described = {device.uuid: device for device in self._nvml.discover()} if self._nvml is not None else {}
        if described and uuids and not described.keys() & uuids:
            _LOG.warning("DCGM at %s is on another machine: NVML's processes and XIDs are not its own", self._address)
            self._nvml, described = None, {}
        devices = []
        for number, found in attributes.items():
            uuid = _text(found.identifiers.uuid)
            self.driver_version = _text(found.identifiers.driverVersion)
            device = described.get(uuid) or self._describe(number, found, hierarchy.get(number, []))
            devices.append(device)
            with self._lock:
                known = self._cards.get(uuid)
            if known is None or known[0] != device:
                card = self._watch(number, hierarchy.get(number, []))
                with self._lock:
                    self._cards[uuid] = (device, card)
                if known is not None:
                    known[1].close()
        with self._lock:
            self._cards = {uuid: kept for uuid, kept in self._cards.items() if uuid in uuids}
        return devices

    def _attributes(self, number: int) -> Any:
        return self._system.discovery.GetGpuAttributes(number)

    def _hierarchy(self) -> dict[int, list[tuple[int, str]]]:
        """Entity id and GPU instance id of the MIG instances of each GPU."""
        try:
            found = self._dcgm.agent.dcgmGetGpuInstanceHierarchy(self._handle.handle)
        except self._dcgm.structs.DCGMError:
            return {}  # no card here has MIG
        instances: dict[int, list[tuple[int, str]]] = {}
        for position in range(found.count):
            entry = found.entityList[position]
            if entry.entity.entityGroupId == self._dcgm.fields.DCGM_FE_GPU_I:
                instances.setdefault(entry.parent.entityId, []).append(
                    (entry.entity.entityId, str(entry.info.nvmlInstanceId))
                )
        return instances

    def _describe(self, number: int, found: Any, instances: list[tuple[int, str]]) -> Device:
        """A device as far as the host engine alone describes it: without MIG UUIDs."""
        card = self._watch_fields(number, instances, (_NAME_FIELD, _INDEX_FIELD, _MINOR_FIELD))
        values = card.latest()
        card.close()
        board = values.get(self._dcgm.fields.DCGM_FE_GPU, {}).get(number, {})
        names = values.get(self._dcgm.fields.DCGM_FE_GPU_I, {})
        minor = _number(board.get(_MINOR_FIELD))
        index = _number(board.get(_INDEX_FIELD))
        described = tuple(
            GpuInstance(instance, _name(names.get(entity, {}).get(_NAME_FIELD))) for entity, instance in instances
        )
        return Device(
            uuid=_text(found.identifiers.uuid),
            index=number if index is None else int(index),
            minor=None if minor is None else int(minor),
            pci_bus_id=_text(found.identifiers.pciBusId).upper(),
            model=_text(found.identifiers.deviceName),
            serial=_text(found.identifiers.serial),
            mig=bool(instances),
            instances=described,
            vbios=_text(found.identifiers.vbios),
            inforom=_text(found.identifiers.inforomImageVersion),
        )

    def _watch(self, number: int, instances: list[tuple[int, str]]) -> _Card:
        profiled = self._profiling_fields(number)
        wanted = [
            field
            for field in _FIELDS
            if (field in profiled or not _FIRST_PROFILING_FIELD <= field <= _LAST_PROFILING_FIELD)
            and self._dcgm.fields.DcgmFieldGetById(field) is not None
        ]
        return self._watch_fields(number, instances, wanted)

    def _watch_fields(self, number: int, instances: list[tuple[int, str]], fields: Iterable[int]) -> _Card:
        pydcgm, dcgm_fields = self._dcgm.pydcgm, self._dcgm.fields
        # The host engine refuses a name that it knows, another client's or that of a layout just replaced.
        name = f"gpuledger-{os.getpid()}-{next(self._watches)}"
        group = pydcgm.DcgmGroup(self._handle, groupName=name, groupType=self._dcgm.structs.DCGM_GROUP_EMPTY)
        group.AddEntity(dcgm_fields.DCGM_FE_GPU, number)
        for entity, _ in instances:
            group.AddEntity(dcgm_fields.DCGM_FE_GPU_I, entity)
        watched = pydcgm.DcgmFieldGroup(self._handle, name, list(fields))
        group.samples.WatchFields(watched, int(self._interval * 1e6), self._interval * 2, 2)
        self._system.UpdateAllFields(True)
        return _Card(number, dict(instances), group, watched)

    def _profiling_fields(self, number: int) -> set[int]:
        """The profiling fields of every metric group that the card supports; DCGM takes turns where groups clash."""
        try:
            found = self._dcgm.agent.dcgmProfGetSupportedMetricGroups(self._handle.handle, number)
        except self._dcgm.structs.DCGMError:
            return set()
        fields: set[int] = set()
        for position in range(found.numMetricGroups):
            group = found.metricGroups[position]
            fields.update(group.fieldIds[: group.numFieldIds])
        return fields

    def read(self, device: Device) -> Reading:
        """One pass over one card. Raises DeviceLost."""
        try:
            reading = self._read(device)
        except DeviceLost:
            if self._nvml is None:
                raise
            return self._nvml.read(device)  # which says whether it is the card that is lost, or the host engine
        self._add_from_nvml(device, reading)
        return reading

    def _read(self, device: Device) -> Reading:
        with self._lock:
            _, card = self._cards.get(device.uuid, (None, None))
        if card is None:
            raise DeviceLost(f"{device.uuid}: the host engine doesn't know it any more")
        try:
            latest = card.latest()
        except self._dcgm.structs.DCGMError as error:
            self.up = False
            raise DeviceLost(f"{device.uuid}: {error}") from error
        reading = Reading(device)
        board = latest.get(self._dcgm.fields.DCGM_FE_GPU, {}).get(card.number, {})
        self._check_age(device, board)
        reading.values = _values(board)
        if not reading.values:
            raise DeviceLost(f"{device.uuid}: every field is blank")
        self._note_xid(device.uuid, board)
        instances = latest.get(self._dcgm.fields.DCGM_FE_GPU_I, {})
        for entity, instance in card.instances.items():
            own = _values(instances.get(entity, {}))
            reading.instance_values[instance] = {key: value for key, value in own.items() if key in _INSTANCE_KEYS}
        all_values = (reading.values, *reading.instance_values.values())
        reading.capabilities["profiling"] = any("engine_active_ratio" in values for values in all_values)
        reading.capabilities["xid_events"] = self.hears_xids(device.uuid)
        return reading

    def _check_age(self, device: Device, board: dict[int, Any]) -> None:
        newest = max((series[-1].ts for series in board.values() if series), default=0) / 1e6
        if newest and self._wall_clock() - newest > _STALE_INTERVALS * self._interval:
            self.up = False
            raise DeviceLost(f"{device.uuid}: the host engine has stopped updating its fields")

    def _add_from_nvml(self, device: Device, reading: Reading) -> None:
        """Processes, and whatever this DCGM has no field for."""
        if self._nvml is None:
            return
        beside = self._nvml.read(device)
        reading.processes = beside.processes
        reading.capabilities = dict(beside.capabilities) | {"profiling": reading.capabilities["profiling"]}
        for key, value in beside.values.items():
            reading.values.setdefault(key, value)
        for instance, values in beside.instance_values.items():
            own = reading.instance_values.setdefault(instance, {})
            for key, value in values.items():
                own.setdefault(key, value)

    def _note_xid(self, uuid: str, board: dict[int, Any]) -> None:
        series = board.get(_XID_FIELD)
        code = _number(series)
        if series and code:
            with self._lock:
                self._xid_seen[uuid] = (int(code), int(series[-1].ts))

    def wait_for_xids(self, timeout_seconds: float) -> list[XidEvent]:
        """XIDs from NVML's events; without NVML, each change of the host engine's latched code counts once."""
        if self._nvml is not None:
            return self._nvml.wait_for_xids(timeout_seconds)
        with self._lock:
            seen = dict(self._xid_seen)
        events = []
        for uuid, mark in seen.items():
            if self._reported.get(uuid) != mark:
                self._reported[uuid] = mark
                events.append(XidEvent(uuid, mark[0]))
        return events

    def hears_xids(self, uuid: str) -> bool:
        """Whether XIDs of a card are told, by NVML's events or by the host engine's latched code."""
        return self._nvml.hears_xids(uuid) if self._nvml is not None else uuid in self._cards

    def reopen(self) -> None:
        """Connect afresh. Raises BackendError."""
        if self._nvml is not None:
            self._nvml.reopen()
            self.up = False  # the next discovery connects
        else:
            self._reconnect()

    def _reconnect(self) -> None:
        self.close()
        self._reach(self._address)
        self._connect()

    def close(self) -> None:
        """Disconnect; the host engine drops the watches."""
        with self._lock:
            self._cards = {}
        with contextlib.suppress(self._dcgm.structs.DCGMError):
            self._handle.Shutdown()


@dataclass(frozen=True, slots=True)
class _Card:
    """The watches of one card: the board's entity and those of its instances."""

    number: int
    instances: dict[int, str]
    group: Any
    field_group: Any

    def latest(self) -> dict[int, dict[int, dict[int, Any]]]:
        """The newest values by entity group, entity and field."""
        values: dict[int, dict[int, dict[int, Any]]] = self.group.samples.GetLatest_v2(self.field_group).values
        return values

    def close(self) -> None:
        """Give up the watches."""
        self.group.Delete()
        self.field_group.Delete()


_INSTANCE_KEYS: Final = frozenset(metric.key for metric in CATALOG if metric.scope == "instance")


def _values(series_by_field: dict[int, Any]) -> dict[str, float]:
    """Values in base units by catalogue key, blanks left out."""
    values: dict[str, float] = {}
    for field, (key, scale) in _FIELDS.items():
        value = _number(series_by_field.get(field))
        if value is not None and key not in values:
            values[key] = value * scale
    return values


def _number(series: Any) -> float | None:
    """The newest number of a series; None for blanks, text and nothing."""
    if not series:
        return None
    newest = series[-1]
    if newest.isBlank or isinstance(newest.value, str | bytes):
        return None
    value = float(newest.value)
    return None if is_blank(value) else value


def _name(series: Any) -> str:
    return _text(series[-1].value) if series and not series[-1].isBlank else ""


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    # NVIDIA's bindings give a text field as str() of its bytes.
    return str(value).removeprefix("b'").removesuffix("'") if str(value).startswith("b'") else str(value)
