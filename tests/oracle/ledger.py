"""Every elementary interval of the period judged by the rules: where each device-second goes, and who holds what.

Readings
  E1. A slice belongs to its owner from the scrape that shows it to the next that names the owner; "slices seen" are
      those of the leases that hold at the instant and those that the standing scrape shows without an owner.
  E2. Owners of a shared device at an instant are the leases that hold then, bridged ones included.
  E3. A device that is down keeps nothing: leases, slices and (for a whole card) the stranded part go to down.
  E4. Nameless down GPUs come out of what is left of devices of their model, unobserved before idle, in order of
      device, the outage that began first before the others; what exceeds that is nowhere. A tenant's down GPUs are the
      rows that name it, as far as they found a device. Rejected: the rows' nominal GPUs; named outages on the tenant's
      dedicated devices without its name. A lease that an outage cuts is still one lease in the means. Rejected: two.
  E5. Energy of a board with instances goes by weight × busy over the instances present; where one of them has no
      valid busy sample, or all are at 0, by weight alone. Rejected: an unknown activity counts as 0.
  E6. A board has a counter if any valid counter sample of it exists; then its power samples count for nothing.
  E7. The mean of a lease is weighted by GPU time (weight × share), not by time alone.
  E8. Energy measured while a card doesn't count as capacity is the fleet's all the same, and idle's.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracle.fleet import Card, Fleet, model_fits
from tests.oracle.leases import Holdings, Lease, run_lease
from tests.oracle.mig import Device, weights
from tests.oracle.placement import Placed, place
from tests.oracle.reading import Inputs, Outage, Run
from tests.oracle.samples import Observations, busy, busy_stretches, observed
from tests.oracle.settings import FOREVER, HOUR, Settings


@dataclass(eq=False)
class Holding:
    """`amount` GPUs held over one interval. `busy` is None where nothing valid was observed."""

    workload: str
    cluster: str
    start: int
    end: int
    device_id: str
    key: object
    model: str
    amount: Fraction
    busy: Fraction | None
    labels: dict[str, str]
    run: Run | None
    joules: Fraction | None = None


@dataclass
class Piece:
    """What of a card no lease holds over one interval; `state` is idle or unobserved."""

    card: Card
    amount: Fraction
    state: str


@dataclass
class Instant:
    """One elementary interval [start, end) of the whole fleet. All amounts are GPUs."""

    start: int
    end: int
    capacity: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    stranded: Fraction = Fraction(0)
    down: Fraction = Fraction(0)
    holdings: list[Holding] = field(default_factory=list)
    free: list[Piece] = field(default_factory=list)
    tenant_down: dict[str, list[tuple[str, Fraction]]] = field(default_factory=lambda: defaultdict(list))
    joules: Fraction | None = None

    @property
    def hours(self) -> Fraction:
        return Fraction(self.end - self.start) / HOUR


class Boards:
    """Energy of each board over any interval: its counter's increases, or its power, spread evenly in time."""

    def __init__(self, seen: Observations) -> None:
        self.flows: dict[str, list[tuple[int, int, Fraction]]] = {}
        self.resets = 0
        for uuid, by_metric in seen.boards.items():
            counter = by_metric["energy"].values() if "energy" in by_metric else []
            flows = []
            for (since, _, before), (at, _, after) in itertools.pairwise(counter):
                self.resets += after < before
                flows.append((since, at, after - before if after >= before else after))
            if not counter and "power" in by_metric:
                flows = [(a, b, watts * Fraction(b - a, 1000)) for a, b, watts in by_metric["power"].values()]
            if flows:
                self.flows[uuid] = flows

    def joules(self, uuid: str, start: int, end: int) -> Fraction | None:
        """None where nothing measured the board then."""
        total = None
        for begin, finish, amount in self.flows.get(uuid, []):
            overlap = min(end, finish) - max(start, begin)
            if overlap > 0:
                total = (total or 0) + amount * Fraction(overlap) / (finish - begin)
        return total

    def edges(self) -> set[int]:
        return {edge for flows in self.flows.values() for begin, finish, _ in flows for edge in (begin, finish)}


class Ledger:
    """The fleet over the period, interval by interval."""

    def __init__(
        self, fleet: Fleet, holdings: Holdings, seen: Observations, inputs: Inputs, settings: Settings
    ) -> None:
        self.fleet, self.holdings, self.seen, self.inputs, self.settings = fleet, holdings, seen, inputs, settings
        self.boards = Boards(seen)
        self.contradicted = {unit: busy_stretches(by_metric) for unit, by_metric in seen.series.items()}
        self.pushed_out: set[Lease] = set()
        self.cut_by_capacity: set[Run] = set()

    def instants(self, start: int, end: int, more_edges: set[int]) -> tuple[list[Instant], Placed]:
        """Every elementary interval of [start, end) and what was placed where."""
        edges = sorted({e for e in self._edges() | more_edges if start < e < end} | {start, end})
        intervals = list(itertools.pairwise(edges))
        fixed = sorted(self._edges_of_what_is_held() | {start, end})
        placed = place(self.fleet, self.holdings, list(itertools.pairwise(fixed)), self._is_down)
        return [self._judge(a, b, placed) for a, b in intervals], placed

    def _edges(self) -> set[int]:
        edges = self.boards.edges() | self._edges_of_what_is_held()
        for by_metric in [*self.seen.series.values(), *self.seen.boards.values()]:
            edges |= {edge for series in by_metric.values() for s in series.standing for edge in (s.start, s.end)}
        return edges

    def _edges_of_what_is_held(self) -> set[int]:
        edges: set[int] = set()
        for card in self.fleet.cards:
            edges |= {edge for span in card.spans for edge in span}
            edges |= set(card.layouts.edges()) if card.layouts else set()
        for leases in self.holdings.leases.values():
            edges |= {edge for lease in leases for edge in (lease.start, lease.end)}
        for run in self.inputs.runs:
            assert run.end is not None
            edges |= {run.start, run.end}
        edges |= {edge for outage in self.inputs.outages for edge in (outage.start, outage.end)}
        edges |= {edge for span in self.inputs.covered.values() for edge in span if edge is not None}
        return edges

    def _is_down(self, card: Card, device: Device, at: int) -> bool:
        return any(o.start <= at < o.end and o.device in (card.id, device.id) for o in self.inputs.outages if o.device)

    def _judge(self, start: int, end: int, placed: Placed) -> Instant:
        index = placed.index(start)
        now = Instant(start, end)
        for card in self.fleet.cards:
            joules = self.boards.joules(card.id, start, end)
            if joules is not None:
                now.joules = (now.joules or 0) + joules
            if card.exists(start):
                now.capacity[card.model] += 1
                self._judge_card(card, now, joules, index, placed)
        self._whole_nodes(now, index, placed)
        self._outside(now, index, placed)
        self._nameless_outages(now)
        for outage in self._outages(start):
            if outage.device and outage.tenant and (found := self._down_weight(outage, start)):
                now.tenant_down[outage.tenant].append(found)
        return now

    def _judge_card(self, card: Card, now: Instant, joules: Fraction | None, index: int, placed: Placed) -> None:
        at = now.start
        devices = card.devices(at)
        whole_card_down = any(o.device == card.id for o in self._outages(at))
        if whole_card_down:
            now.down += 1
            return
        parts = self._weights(card, devices)
        now.stranded += 1 - sum(parts, Fraction(0))
        activity = [self._busy(device, at) for device in devices]
        by_activity = [part * (ratio or 0) for part, ratio in zip(parts, activity, strict=True)]
        if None in activity or not sum(by_activity):
            by_activity = parts
        for device, part, ratio, weight in zip(devices, parts, activity, by_activity, strict=True):
            if self._is_down(card, device, at):
                now.down += part
                continue
            energy = joules * weight / sum(by_activity) if joules is not None else None
            left = Fraction(1)
            for lease, share in self._shares(card, device, at):
                left -= share
                now.holdings.append(_holding(lease, card, part * share, ratio, energy and energy * share))
            need = placed.taken[index].get(device)
            if need:
                lease = run_lease(need.run, device, [])
                now.holdings.append(_holding(lease, card, part, None, energy))
                left = Fraction(0)
            if left:
                seen = observed(self.seen.series.get(device.unit, {}), at) or self._accounted(card, at)
                now.free.append(Piece(card, part * left, "idle" if seen else "unobserved"))

    def _weights(self, card: Card, devices: list[Device]) -> list[Fraction]:
        if not devices[0].is_instance:
            return [Fraction(1)]
        return weights([device.unit[2] for device in devices], card.model, self.settings.mig_weight)

    def _busy(self, device: Device, at: int) -> Fraction | None:
        by_metric = self.seen.series.get(device.unit, {})
        return busy(by_metric, self.contradicted.get(device.unit, []), at)

    def _shares(self, card: Card, device: Device, at: int) -> list[tuple[Lease, Fraction]]:
        leases = [lease for lease in self.holdings.leases.get(device, []) if lease.start <= at < lease.end]
        if device not in self.holdings.shared and any(lease.run for lease in leases):
            self.pushed_out |= {lease for lease in leases if not lease.run}
            leases = [lease for lease in leases if lease.run]
        if not leases:
            return []
        if card.slots is None:
            return [(lease, Fraction(1, len(leases))) for lease in leases]
        held = [lease.slices_at(at) for lease in leases]
        slots = max(card.slots, sum(held) + self._ownerless_slices(device, at))
        return [(lease, Fraction(count, slots)) for lease, count in zip(leases, held, strict=True)]

    def _ownerless_slices(self, device: Device, at: int) -> int:
        standing = [s for s in self.seen.scrapes.get(device.unit, []) if s.at <= at < s.end]
        if not standing:
            return 0
        owned = {piece for pieces in standing[-1].owners.values() for piece in pieces}
        return len(standing[-1].slices - owned)

    def _accounted(self, card: Card, at: int) -> bool:
        spans = [self.inputs.covered[node] for node in card.nodes if node in self.inputs.covered]
        return any(start <= at < (FOREVER if end is None else end) for start, end in spans)

    def _whole_nodes(self, now: Instant, index: int, placed: Placed) -> None:
        """Gives placed holdings their device's busy ratio where their run holds all of the node."""
        for device, need in placed.taken[index].items():
            if need.node is None:
                continue
            card = next(c for c in self.fleet.cards if device in c.all_devices)
            cards = [c for c in self.fleet.cards if c.nodes & card.nodes and c.exists(now.start)]
            neighbours = {d for c in cards for d in c.devices(now.start)}
            held_by_run = {h.key for h in now.holdings if h.run is need.run}
            down = {d for c in cards for d in c.devices(now.start) if self._is_down(c, d, now.start)}
            named = {d for d in neighbours if any(lease.run is need.run for lease in self.holdings.leases.get(d, []))}
            needed = sum(n.count for n in self.holdings.needs if n.run is need.run and n.node in card.nodes)
            if neighbours <= held_by_run | down and len(named) + needed >= len(neighbours):
                for holding in now.holdings:
                    if holding.key is device:
                        holding.busy = self._busy(device, now.start)

    def _outside(self, now: Instant, index: int, placed: Placed) -> None:
        for need in placed.outside[index]:
            now.capacity[need.model] += need.count
            node = need.node or ""
            now.holdings.append(_outside_holding(need.run, node, need.model, Fraction(need.count)))
        for run in self.holdings.unknown_devices:
            assert run.end is not None
            if run.start <= now.start < run.end:
                outages = [o for o in self._outages(now.start) if o.device == run.device]
                now.capacity[run.needs[0][0]] += 1
                if outages:
                    now.down += 1
                else:
                    now.holdings.append(_outside_holding(run, run.device, run.needs[0][0], Fraction(1)))

    def _outages(self, at: int) -> list[Outage]:
        return [outage for outage in self.inputs.outages if outage.start <= at < outage.end]

    def _nameless_outages(self, now: Instant) -> None:
        nameless = [outage for outage in self._outages(now.start) if not outage.device]
        for outage in sorted(nameless, key=lambda o: o.start):
            wanted = outage.gpus
            for state in ("unobserved", "idle"):
                for piece in now.free:
                    if piece.state == state and model_fits(outage.model, piece.card.model) and wanted:
                        part = min(wanted, piece.amount)
                        piece.amount -= part
                        wanted -= part
                        now.down += part
                        if outage.tenant:
                            now.tenant_down[outage.tenant].append((piece.card.model, part))

    def _down_weight(self, outage: Outage, at: int) -> tuple[str, Fraction] | None:
        for card in self.fleet.cards:
            if not card.exists(at):
                continue
            if card.id == outage.device:
                return card.model, Fraction(1)
            devices = card.devices(at)
            for device, part in zip(devices, self._weights(card, devices), strict=True):
                if device.id == outage.device:
                    return card.model, part
        return None


def _holding(lease: Lease, card: Card, amount: Fraction, ratio: Fraction | None, joules: Fraction | None) -> Holding:
    labels = {**lease.labels, "node": card.node}
    labels["cluster"] = labels.get("cluster") or card.cluster
    return Holding(
        lease.workload,
        lease.cluster,
        lease.start,
        lease.end,
        lease.device.id,
        lease.device,
        card.model,
        amount,
        ratio,
        labels,
        lease.run,
        joules,
    )


def _outside_holding(run: Run, place_name: str, model: str, amount: Fraction) -> Holding:
    assert run.end is not None
    labels = {"cluster": run.cluster, **run.labels, "node": place_name}
    key = (place_name, model)
    return Holding(run.workload, run.cluster, run.start, run.end, place_name, key, model, amount, None, labels, run)
