"""A Slurm node, in any of its JSON shapes → what it has, and how it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pipelines.sources.device_table import DeviceTable
from pipelines.sources.slurm_values import moment, states_of, text_of
from pipelines.sources.tally import Tally
from pipelines.sources.tres import gpus_by_type

State = Literal["ok", "degraded", "down", "repair"]

_DOWN: Final = frozenset({"DOWN", "FAIL", "FAILED", "ERROR", "NOT_RESPONDING"})
_OUT: Final = frozenset({"DRAIN", "DRAINED", "MAINT", "MAINTENANCE"})
_LEAVING: Final = frozenset({"DRAINING", "FAILING"})
_WORKING: Final = frozenset({"ALLOCATED", "ALLOC", "MIXED", "COMPLETING"})
_GONE: Final = frozenset({"FUTURE", "FUTR"})


def node_facts(
    nodes: Iterable[Mapping[str, Any]], *, cluster: str, observed: datetime | None, cards: DeviceTable, tally: Tally
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Rows of ``facts.NODE`` and ``facts.CONDITION``; a node that is named twice (in two partitions) counts once."""
    seen: set[str] = set()
    listings: list[dict[str, object]] = []
    conditions: list[dict[str, object]] = []
    untracked = 0
    for node in nodes:
        name = text_of(node.get("name"))
        if name is None or name in seen:
            continue
        seen.add(name)
        states = [*states_of(node.get("state")), *states_of(node.get("state_flags"))]
        if _GONE.intersection(states):
            continue
        try:
            listed = _listing(node, cards.of(name))
        except ValueError:
            tally.add("node whose Gres has no count")
            continue
        tres = text_of(node.get("tres"))
        untracked += bool(listed) and tres is not None and "gres/gpu" not in tres
        listings += [{"cluster": cluster, "node": name, "observed": observed, **row} for row in listed]
        state = state_of(states)
        conditions.append(
            {
                "cluster": cluster,
                "node": name,
                "device": None,
                "state": state,
                "reason": text_of(node.get("reason")),
                "source": "slurm",
                "from": _since(node, state),
                "to": None,
                "observed": observed,
            }
        )
    if untracked:
        tally.add(
            "nodes have GPUs that Slurm doesn't account for: add gres/gpu to AccountingStorageTRES in slurm.conf",
            count=untracked,
            code="gpus_not_tracked",
        )
    return listings, conditions


def state_of(states: Iterable[str]) -> State:
    """How a node is: ``down``, ``repair`` (drained: nobody gets it), ``degraded`` (draining: jobs go on) or ``ok``."""
    told = frozenset(states)
    if told & _DOWN:
        return "down"
    if told & _LEAVING or (told & _OUT and told & _WORKING):
        return "degraded"
    return "repair" if told & _OUT else "ok"


def _listing(node: Mapping[str, Any], cards: Mapping[int, str]) -> list[dict[str, object]]:
    gres = text_of(node.get("gres")) or ""
    had = gpus_by_type(gres)
    used_text = text_of(node.get("gres_used"))
    used = gpus_by_type(used_text) if used_text is not None and used_text != "N/A" else None
    total = sum(had.values())
    devices = [cards[minor] for minor in sorted(cards)] if len(cards) == total else []
    return [
        {
            "model": model,
            "gpus": count,
            # Slurm doesn't say which minors are of which type: with two types nobody knows whose they are.
            "devices": devices if len(had) == 1 else [],
            # Shards are no time slices: a job without them has the whole card, and one with them says how many.
            "slots": None,
            "used": None if used is None else float(sum(used.values()) if len(had) == 1 else used.get(model, 0)),
        }
        for model, count in had.items()
    ]


def _since(node: Mapping[str, Any], state: State) -> datetime | None:
    """Since when a node is so; a drained one is out of use only since its last job left."""
    reason, busy = _time(node.get("reason_changed_at")), _time(node.get("last_busy"))
    if state == "ok" or reason is None:
        return None
    return max(reason, busy) if state == "repair" and busy is not None else reason


def _time(value: Any) -> datetime | None:
    seconds = moment(value)
    return None if seconds is None or not seconds.isdecimal() else datetime.fromtimestamp(int(seconds), UTC)
