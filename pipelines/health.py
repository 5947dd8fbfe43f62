"""How nodes and devices are over time: what schedulers, the calendar and the devices themselves say.

A thing is in one state at a time, the worst that anybody says of it: down, repair, degraded, else ok. Down and repair
are out of use: nobody can hold what is out, and nobody pays for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import polars as pl

from pipelines.config import Config
from pipelines.fleet import Device, Fleet
from pipelines.hierarchy import Labels
from pipelines.instants import from_ms
from pipelines.intervals import Interval, union
from pipelines.leases import Lease
from pipelines.schedulers import Record
from pipelines.selectors import first_tenant

SEVERITY: Final = {"ok": 0, "degraded": 1, "repair": 2, "down": 3}
OUT: Final = ("down", "repair")
FOREVER: Final = 1 << 62
ONE: Final = Fraction(1)

DEVICE_STATE: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "model": pl.String(),
    "state": pl.String(),  # degraded | repair | down; what is not listed is ok
    "reason": pl.String(),
    "source": pl.String(),
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),  # null: still
}
"""grain: card × stretch of time in which something was wrong with it."""


@dataclass(frozen=True)
class Spell:
    """A stretch of time in which something is said of a node (`device` None: all of it) or a device; times in ms."""

    cluster: str | None
    node: str | None
    device: str | None
    state: str
    reason: str | None
    source: str
    start: int
    end: int | None


def spells(conditions: pl.DataFrame) -> list[Spell]:
    """Return what ``facts.CONDITION`` says over time.

    Answers about how a node is stand to the next answer about it, or to an end that is told of. What begins before an
    answer tells so itself, but not before the answer that said otherwise. Rows with bounds of their own stand between
    those.
    """
    rows = conditions.with_columns(pl.col(c).dt.epoch("ms") for c in ("from", "to", "observed"))
    found: list[Spell] = []
    is_answer = (pl.col("source") == "slurm") | (pl.col("source") == "kubernetes") & pl.col("observed").is_not_null()
    key = ["cluster", "node", "device", "source"]
    over: dict[tuple[object, ...], list[_Over]] = {}
    for *what, state, begins, ends in rows.filter(~is_answer).select(*key, "state", "from", "to").rows():
        over.setdefault(tuple(what), []).append((state, begins, ends))
    for about, told in rows.filter(is_answer).group_by(key, maintain_order=True):
        cluster, node, device, _ = map(_text, about)
        found += _between_answers(cluster, node, device, told.sort("observed", "from"), over.get(about, []))
    for row in rows.filter(~is_answer).iter_rows(named=True):
        begins = row["from"] if row["from"] is not None else row["observed"]
        if begins is not None and (row["to"] is None or row["to"] > begins):
            # Who saw it last when he was asked last doesn't know of an end.
            ends = None if row["observed"] is not None else row["to"]
            told_by = (row["cluster"], row["node"], row["device"], row["state"], row["reason"], row["source"])
            found.append(Spell(*told_by, begins, ends))
    return _merged(found)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


_Over = tuple[str, int | None, int | None]
"""State, start and end (ms) of what had an end when it was told of."""


def _between_answers(
    cluster: str | None, node: str | None, device: str | None, told: pl.DataFrame, over: Sequence[_Over]
) -> Iterator[Spell]:
    columns = told.select("state", "reason", "source", "from", "observed").rows()
    before: int | None = None
    for (state, reason, source, begins, observed), following in pairwise([*columns, (None,) * 5]):
        start = begins if begins is not None else observed
        if start is None:
            continue
        start = start if before is None else max(start, before)
        start = start if observed is None else min(start, observed)
        next_state, _, _, since, ends = following
        if observed is not None:
            known = [t for s, f, t in over if s == state and f is not None and t is not None and f <= observed <= t]
            known += [max(since, observed)] if next_state == "ok" and since is not None else []
            ends = min([t for t in (ends, *known) if t is not None], default=None)
        if state != "ok" and (ends is None or ends > start):
            yield Spell(cluster, node, device, state, reason, source, start, ends)
        before = observed


def _merged(found: Iterable[Spell]) -> list[Spell]:
    """Join what goes on from one answer, or one import, to the next."""
    alike: dict[Spell, list[Interval]] = {}
    for spell in found:
        end = FOREVER if spell.end is None else spell.end
        alike.setdefault(replace(spell, start=0, end=None), []).append((spell.start, end))
    return [
        replace(what, start=start, end=None if end >= FOREVER else end)
        for what in sorted(alike, key=str)
        for start, end in union(alike[what])
    ]


def device_states(found: Sequence[Spell], fleet: Fleet) -> pl.DataFrame:
    """Return DEVICE_STATE of the fleet's cards: of a node's spells, each of its cards."""
    on_node: dict[str | None, list[Device]] = {}
    named: dict[str, list[Device]] = {}
    for card in fleet.cards() if found else ():
        on_node.setdefault(card.node, []).append(card)
        named.setdefault(card.device, []).append(card)
    rows = [
        (
            card.cluster, card.node, card.device, card.model, spell.state, spell.reason, spell.source,
            spell.start, spell.end,
        )
        for spell in found
        for card in (on_node.get(spell.node or "", ()) if spell.device is None else named.get(spell.device, ()))
        if spell.cluster in (None, card.cluster)
    ]  # fmt: skip
    table = pl.DataFrame(rows, schema=DEVICE_STATE, orient="row")
    return table.unique(maintain_order=True).sort("cluster", "node", "device", "start", "state", "reason")


def outages(
    states: pl.DataFrame, fleet: Fleet, leases: Iterable[Lease], config: Config, horizon: int, above: Labels
) -> list[Record]:
    """Return what was out of use as records of class down or repair, one per card and stretch.

    A card is out for whom it was meant: the tenant that its node is dedicated to, else the one who held it when it
    went out; with neither it is out for nobody in particular.

    Args:
        states: DEVICE_STATE.
        leases: what was held, by labels and schedulers.
        horizon: up to when what still goes on is held to be so, ms.
    """
    out: dict[tuple[str | None, str], list[tuple[int, int | None, str]]] = {}
    told = states.filter(pl.col("state").is_in(OUT)).select("cluster", "device", "start", "end", "state")
    for cluster, device, *stretch in told.iter_rows():
        out.setdefault((cluster, device), []).append((stretch[0], stretch[1], stretch[2]))
    if not out:
        return []
    held: dict[int, list[Lease]] = {}
    for lease in leases:
        held.setdefault(fleet.devices[lease.dev].card, []).append(lease)
    records = []
    for card in fleet.cards():
        for start, end, state in _worst(out.get((card.cluster, card.device), ()), horizon):
            tenant = fleet.owner_at(card.dev, start) or _holder(held.get(card.dev, ()), config, start, above)
            records.append(
                Record("health", card.cluster, state, state, start, end, ONE, tenant=tenant, given_class=state,
                       device=card.device, model=card.model)
            )  # fmt: skip
    return records


def _worst(rows: Iterable[tuple[int, int | None, str]], horizon: int) -> Iterator[tuple[int, int, str]]:
    """Yield where a card is out, in the worst of the states that are said at each time."""
    bounded = [(start, min(end if end is not None else horizon, horizon), state) for start, end, state in rows]
    bounded = [row for row in bounded if row[0] < row[1]]
    edges = sorted({t for start, end, _ in bounded for t in (start, end)})
    pieces: list[tuple[int, int, str]] = []
    for a, b in pairwise(edges):
        states = [state for start, end, state in bounded if start <= a and end >= b]
        if states:
            worst = max(states, key=lambda state: SEVERITY[state])
            if pieces and pieces[-1][1] == a and pieces[-1][2] == worst:
                pieces[-1] = (pieces[-1][0], b, worst)
            else:
                pieces.append((a, b, worst))
    yield from pieces


def _holder(leases: Iterable[Lease], config: Config, at: int, above: Labels) -> str | None:
    """Return the tenant that held a card when it went out."""
    for lease in sorted(leases, key=lambda lease: (lease.start, lease.workload)):
        if lease.start < at <= lease.end:
            labels = {
                "cluster": lease.cluster, "node": lease.node, "namespace": lease.namespace, "pod": lease.pod,
                "slurm_account": lease.slurm_account, "slurm_partition": lease.slurm_partition,
                "slurm_qos": lease.slurm_qos, "slurm_user": lease.slurm_user,
                **above(lease.cluster, lease.slurm_account, lease.namespace),
            }  # fmt: skip
            tenant = first_tenant(config.tenants, labels, from_ms(at))
            if lease.tenant or tenant:
                return lease.tenant or (tenant.id if tenant else None)
    return None
