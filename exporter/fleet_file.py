"""A fleet of pretended cards as a file describes it: ``gpuledger exporter --fake FLEET.yaml``.

::

    driver_version: "580.105.08"
    gpus:
      - model: NVIDIA H100 80GB HBM3
        count: 8                  # default 1
        load: 0.8                 # 0 to 1, or "wave": a slow saw between idle and full; default wave
        mig: [1g.10gb, {profile: 2g.20gb, id: 3, uuid: MIG-…}]
        processes: [{pid: 4711, memory_bytes: 1073741824}]
        values: {temperature_celsius: 61, fan_speed_ratio: null}    # base units; null: not supported
        faults: [{kind: lost, at: 60, for: 30}, {kind: xid, code: 79, at: 60}]
        only_values: true         # metrics not in `values` are unsupported

A fault's kind is lost, hang, garbage or xid; ``at`` and ``for`` are seconds since the start (``for`` absent: for ever).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from exporter.catalog import CATALOG
from exporter.documents import load_document
from exporter.errors import ConfigError
from exporter.fleet import FakeCard, FakeFleet, FakeInstance, Fault, is_profiled
from exporter.shapes import Choice, Either, Flag, ListOf, Number, Optional, Record, Text
from exporter.xid import HIGHEST_CODE

_CARDS_AT_MOST: Final = 256
_INSTANCES_AT_MOST: Final = 7
"""NVIDIA cuts a card into seven slices."""
_BUSES: Final = 0xE0
_KINDS: Final = ("lost", "hang", "garbage", "xid")

_WHOLE: Final = Number(whole=True)
_ID: Final = Text("a name without blanks", r"\S+")
_VALUES: Final = Record(
    {metric.key: Optional(Number(metric.minimum, metric.maximum)) for metric in CATALOG}, what="metric", nullable=True
)
_INSTANCE: Final = Record({
    # "" where a driver doesn't tell the profile.
    "profile": Text("a MIG profile such as 1g.10gb", r"|(?:[1-7]c\.)?[12347]g\.[1-9]\d*gb(?:[+-][a-z.]+)*"),
    "id": Number(0, 14, whole=True),
    "compute_instance": Number(0, 7, whole=True),
    "uuid": _ID,
    "values": _VALUES,
})  # fmt: skip
_FAULT: Final = Record(
    {
        "kind": Choice(_KINDS, "kind"),
        "at": Number(),
        "for": Number(above=True),
        "code": Number(1, HIGHEST_CODE, whole=True),
    },
    required=("kind",),
)
_GPU: Final = Record({
    "model": Text(),
    "count": Number(1, _CARDS_AT_MOST, whole=True),
    "uuid": _ID,
    "index": _WHOLE,
    "minor": _WHOLE,
    "pci_bus_id": Text(
        "an address such as 00000000:9B:00.0", r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
    ),
    "serial": Text(numbers=True),
    "load": Either(Number(0, 1), (int, float), Choice(("wave",), "load")),
    "mig": ListOf(Either(_INSTANCE, dict, _INSTANCE.keys["profile"])),
    "processes": ListOf(Record({
        "pid": Number(1, whole=True),
        "memory_bytes": Number(0, 2**63, whole=True),
        "instance": Number(0, 14, whole=True),
    }, required=("pid",))),
    "values": _VALUES,
    "faults": ListOf(_FAULT),
    "only_values": Flag(),
    "profiling": Flag(),
})  # fmt: skip
_FLEET: Final = Record({"driver_version": Text("text in quotes", ".*"), "gpus": ListOf(_GPU)}, required=("gpus",))


def load_fleet(path: Path) -> FakeFleet:
    """A fleet from its file. Raises ConfigError."""
    return parse_fleet(load_document(path, "give the path of a fleet file"), path)


def parse_fleet(document: Any, path: Path = Path("fleet")) -> FakeFleet:
    """A fleet from a parsed document. Raises ConfigError."""
    fleet = _FLEET.read_file(document, path)
    places: list[tuple[str, dict[str, Any]]] = []
    for number, entry in enumerate(fleet["gpus"]):
        places.extend([(f"{path}: gpus[{number}]", entry)] * int(entry.get("count", 1)))
    if len(places) > _CARDS_AT_MOST:
        raise ConfigError(f"{path}: gpus", f"{len(places)} cards, at most {_CARDS_AT_MOST} were expected")
    indices, minors = _numbers(places, "index"), _numbers(places, "minor")
    for (place, _), index in zip(places, indices, strict=True):
        if index >= len(places):
            # The driver counts its cards from 0 without a gap.
            what = f"{index} was found, the place in the driver's list, 0 to {len(places) - 1}, was expected"
            raise ConfigError(f"{place}.index", what)
    cards = [
        _card(entry, place, position, index, minor)
        for position, ((place, entry), index, minor) in enumerate(zip(places, indices, minors, strict=True))
    ]
    _check_unique(
        "uuid", (name for card, (place, _) in zip(cards, places, strict=True) for name in _uuids(card, place))
    )
    _check_unique(
        "pci_bus_id", ((card.pci_bus_id.lower(), place) for card, (place, _) in zip(cards, places, strict=True))
    )
    return FakeFleet(cards, **{key: value for key, value in fleet.items() if key == "driver_version"})


def _numbers(places: Sequence[tuple[str, Mapping[str, Any]]], key: str) -> list[int]:
    """The index or the minor number of each card: what its entry says, else the first that is free."""
    _check_unique(key, ((str(entry[key]), place) for place, entry in places if key in entry))
    taken = {entry[key] for _, entry in places if key in entry}
    free = (number for number in range(2 * len(places)) if number not in taken)
    return [int(entry[key]) if key in entry else next(free) for _, entry in places]


def _check_unique(key: str, named: Iterable[tuple[str, str]]) -> None:
    seen: set[str] = set()
    for name, place in named:
        if name in seen:
            raise ConfigError(f"{place}.{key}", f"{name} stands twice", "give each card its own, or leave it out")
        seen.add(name)


def _uuids(card: FakeCard, place: str) -> Iterator[tuple[str, str]]:
    yield card.uuid, place
    for position, instance in enumerate(card.instances):
        yield instance.uuid, f"{place}.mig[{position}]"


def _card(entry: dict[str, Any], place: str, position: int, index: int, minor: int) -> FakeCard:
    only_values, model = entry.get("only_values", False), entry.get("model", "NVIDIA H100 80GB HBM3")
    card = FakeCard(
        uuid=entry.get("uuid") or f"GPU-{uuid5(NAMESPACE_OID, f'gpuledger fake card {position}')}",
        index=index,
        minor=minor,
        pci_bus_id=entry.get("pci_bus_id") or f"{position // _BUSES:08X}:{0x10 + position % _BUSES:02X}:00.0",
        model=model,
        serial=entry.get("serial", ""),
        load=entry.get("load", "wave"),
        only_values=only_values,
        profiling=entry.get("profiling", is_profiled(model) and not only_values),
        fixed=entry.get("values", {}),
        processes=entry.get("processes", []),
        faults=[_fault(fault, f"{place}.faults[{number}]") for number, fault in enumerate(entry.get("faults", []))],
    )
    wanted = [{"profile": part} if isinstance(part, str) else part for part in entry.get("mig", [])]
    card.instances = [_instance(card, part, number) for number, part in enumerate(wanted)]
    _check_layout(card, f"{place}.mig")
    return card


def _instance(card: FakeCard, wanted: dict[str, Any], position: int) -> FakeInstance:
    number, compute = wanted.get("id", position + 1), wanted.get("compute_instance", 0)
    uuid = wanted.get("uuid") or f"MIG-{uuid5(NAMESPACE_OID, f'{card.uuid}/{number}/{compute}')}"
    values = {key: value for key, value in wanted.get("values", {}).items() if value is not None}
    return FakeInstance(number, wanted.get("profile", "1g.10gb"), uuid, compute, values)


def _check_layout(card: FakeCard, place: str) -> None:
    _check_unique("id", ((f"{part.id}/{part.compute_instance}", place) for part in card.instances))
    slices = sum({part.id: part.slices for part in card.instances}.values())
    if slices > _INSTANCES_AT_MOST:
        raise ConfigError(place, f"{slices:g} slices were found, at most {_INSTANCES_AT_MOST} of a card were expected")


def _fault(entry: dict[str, Any], place: str) -> Fault:
    if "code" in entry and entry["kind"] != "xid":
        raise ConfigError(f"{place}.code", f"says nothing of the kind {entry['kind']}", "use the kind xid")
    return Fault(entry["kind"], entry.get("at", 0.0), entry.get("for", math.inf), entry.get("code", 79))
