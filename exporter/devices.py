"""What a backend reports: devices, their MIG instances, and one reading of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from exporter.errors import WorkError


class BackendError(WorkError):
    """Neither the driver nor a host engine answers: there is nothing to read.

    Args:
        restart: only a new process can mend it, as when the driver was replaced under the loaded library.
    """

    def __init__(self, message: str, *, restart: bool = False) -> None:
        self.restart = restart
        super().__init__(message)


class DeviceLost(WorkError):
    """The GPU no longer answers: it fell off the bus or waits for a reset."""


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance of a GPU instance: what a container is given."""

    uuid: str
    compute_instance: str


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A MIG GPU instance.

    Args:
        id: the driver's GPU instance id.
        profile: "1g.10gb"; "" where the driver doesn't say.
        mig_devices: its compute instances, one in most layouts.
    """

    id: str
    profile: str
    mig_devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A card. Its identity is the UUID; everything else can change at a reboot."""

    uuid: str
    index: int
    minor: int | None
    pci_bus_id: str
    model: str
    serial: str = ""
    mig: bool = False
    instances: tuple[GpuInstance, ...] = ()
    vbios: str = ""
    inforom: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process with a context on a device; ``instance`` is the GPU instance that it runs in."""

    pid: int
    memory_bytes: float | None = None
    instance: str | None = None


@dataclass(slots=True)
class Reading:
    """Everything read from one card in one pass.

    Values are raw in the sense that no range was checked yet, but they are in base units and keyed by
    ``Metric.key``: ``values`` of the board, ``instance_values`` by GPU instance id.
    """

    device: Device
    values: dict[str, float] = field(default_factory=dict)
    instance_values: dict[str, dict[str, float]] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    capabilities: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class XidEvent:
    """An XID that the driver reported; ``instance`` is the GPU instance where one is named."""

    uuid: str
    code: int
    instance: str | None = None


class Backend(Protocol):
    """A way to read the GPUs of this node. All methods may block; the sampler calls each from a watched thread."""

    name: str
    driver_version: str
    up: bool
    """False while a substitute gives the values, or some of them."""

    def discover(self) -> list[Device]:
        """The cards present now and their MIG layout. Raises BackendError."""

    def read(self, device: Device) -> Reading:
        """One pass over one card. Raises DeviceLost."""

    def wait_for_xids(self, timeout_seconds: float) -> list[XidEvent]:
        """XIDs that arrived; waits up to the timeout for the first."""

    def hears_xids(self, uuid: str) -> bool:
        """Whether XIDs of a card arrive by `wait_for_xids`."""

    def reopen(self) -> None:
        """Start the driver library afresh, so that a card that came back is seen."""

    def close(self) -> None:
        """Release what is held."""
