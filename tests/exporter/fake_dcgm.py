"""NVIDIA's DCGM modules over a pretended fleet: the calls and shapes that the backend uses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from exporter.catalog import BY_KEY, CATALOG
from exporter.dcgm_bindings import Bindings
from exporter.devices import BackendError
from exporter.fleet import FakeCard, FakeFleet

FE_GPU, FE_GPU_I = 1, 4
PROFILED = {name.field_id for metric in CATALOG for name in metric.dcgm if 1001 <= name.field_id <= 1012}


class DCGMError(Exception):
    pass


class Dcgm:
    """A host engine: ``lost`` makes a card's fields blank, ``dead`` refuses every call."""

    def __init__(self, fleet: FakeFleet, wall_clock: Callable[[], float]) -> None:
        self.fleet, self.wall_clock = fleet, wall_clock
        self.lost: set[int] = set()
        self.dead = False
        self.stopped_at: float | None = None
        self.watched: dict[int, list[int]] = {}
        self.names: set[tuple[str, str]] = set()
        self.xid: dict[int, tuple[int, float]] = {}

    def bindings(self) -> Bindings:
        engine = self

        class Group:
            def __init__(self, handle: Any, groupName: str, groupType: int) -> None:  # noqa: N803
                del handle, groupType
                engine.claim("group", groupName)
                self.name, self.entities = groupName, []
                self.samples = self

            def Delete(self) -> None:  # noqa: N802
                engine.names.discard(("group", self.name))

            def AddEntity(self, kind: int, number: int) -> None:  # noqa: N802
                self.entities.append((kind, number))

            def WatchFields(self, fields: Any, frequency: int, keep_age: float, keep_samples: int) -> None:  # noqa: N802
                assert frequency > 0
                assert keep_age > 0
                assert keep_samples > 0
                engine.watched[self.entities[0][1]] = fields.ids

            def GetLatest_v2(self, fields: Any) -> Any:  # noqa: N802
                engine.check()
                values: dict[int, Any] = {}
                for kind, number in self.entities:
                    values.setdefault(kind, {})[number] = engine.values(kind, number, fields.ids)
                return SimpleNamespace(values=values)

        class FieldGroup:
            def __init__(self, handle: Any, name: str, ids: list[int]) -> None:
                del handle
                engine.claim("fields", name)
                self.name, self.ids = name, ids

            def Delete(self) -> None:  # noqa: N802
                engine.names.discard(("fields", self.name))

        class Handle:
            handle = object()

            def __init__(self, **where: str) -> None:
                assert where.keys() <= {"ipAddress", "unixSocketPath"}
                engine.check()
                engine.names.clear()  # the groups of a connection end with it

            def GetSystem(self) -> Any:  # noqa: N802
                discovery = SimpleNamespace(GetAllGpuIds=engine.gpu_ids, GetGpuAttributes=engine.attributes)
                return SimpleNamespace(discovery=discovery, UpdateAllFields=lambda wait: None)  # noqa: ARG005

            def Shutdown(self) -> None:  # noqa: N802
                pass

        return Bindings(
            pydcgm=SimpleNamespace(
                DcgmHandle=Handle,
                DcgmGroup=Group,
                DcgmFieldGroup=FieldGroup,
            ),
            structs=SimpleNamespace(DCGMError=DCGMError, DCGM_GROUP_EMPTY=1),
            agent=SimpleNamespace(
                dcgmGetGpuInstanceHierarchy=lambda handle: engine.hierarchy(),  # noqa: ARG005
                dcgmProfGetSupportedMetricGroups=lambda handle, gpu: engine.metric_groups(gpu),  # noqa: ARG005
            ),
            fields=SimpleNamespace(
                DCGM_FE_GPU=FE_GPU,
                DCGM_FE_GPU_I=FE_GPU_I,
                # This engine is older than the fields above 1500.
                DcgmFieldGetById=lambda field: object() if field < 1500 else None,
            ),
        )

    def check(self) -> None:
        if self.dead:
            raise DCGMError("connection lost")

    def claim(self, kind: str, name: str) -> None:
        """A host engine refuses a second group of one name."""
        self.check()
        if (kind, name) in self.names:
            raise DCGMError(f"duplicate key: {name}")
        self.names.add((kind, name))

    def reach(self, address: str) -> None:
        """What a knock at its port says."""
        del address
        if self.dead:
            raise BackendError("connection refused; start nv-hostengine")

    def gpu_ids(self) -> list[int]:
        self.check()
        return list(range(len(self.fleet.cards)))

    def attributes(self, number: int) -> Any:
        card = self.fleet.cards[number]
        return SimpleNamespace(
            identifiers=SimpleNamespace(
                uuid=card.uuid.encode(), deviceName=card.model, pciBusId=card.pci_bus_id, serial=card.serial,
                driverVersion=self.fleet.driver_version, vbios=b"96.00.61", inforomImageVersion="G520.0200",
            )
        )  # fmt: skip

    def hierarchy(self) -> Any:
        entries = []
        for number, card in enumerate(self.fleet.cards):
            entries += [
                SimpleNamespace(
                    entity=SimpleNamespace(entityGroupId=FE_GPU_I, entityId=number * 10 + position),
                    parent=SimpleNamespace(entityId=number),
                    info=SimpleNamespace(nvmlInstanceId=instance.id),
                )
                for position, instance in enumerate(card.instances)
            ]
        return SimpleNamespace(count=len(entries), entityList=entries)

    def metric_groups(self, number: int) -> Any:
        if not self.fleet.cards[number].profiling:
            raise DCGMError("not supported")
        ids = [*sorted(PROFILED), 0, 0]
        return SimpleNamespace(
            numMetricGroups=1, metricGroups=[SimpleNamespace(fieldIds=ids, numFieldIds=len(ids) - 2)]
        )

    def values(self, kind: int, number: int, ids: list[int]) -> dict[int, Any]:
        card = self.fleet.cards[number if kind == FE_GPU else number // 10]
        now = self.stopped_at if self.stopped_at is not None else self.wall_clock()
        source = card if kind == FE_GPU else card.instances[number % 10]
        found = {}
        for field in ids:
            value = self._text(card, kind, number, field)
            if value is None:
                value = self._number(source.values, field) if number not in self.lost else None
            moment = now
            if field == 230 and kind == FE_GPU and number in self.xid:
                value, moment = self.xid[number]
            blank = value is None
            sample = SimpleNamespace(
                value=9223372036854775794 if blank else value, isBlank=blank, ts=int(moment * 1e6), fieldId=field
            )
            found[field] = [SimpleNamespace(value=0, isBlank=True, ts=0, fieldId=field), sample]  # the newest is last
        return found

    def _text(self, card: FakeCard, kind: int, number: int, field: int) -> Any:
        if field == 50:
            return str((card.model if kind == FE_GPU else card.instances[number % 10].profile).encode())
        return {52: card.index, 55: card.minor}.get(field)

    def _number(self, values: dict[str, float], field: int) -> float | None:
        """A value in DCGM's own unit."""
        for metric in CATALOG:
            for name in metric.dcgm:
                if name.field_id == field and metric.key in values:
                    return values[metric.key] / name.scale
        assert BY_KEY
        return None
