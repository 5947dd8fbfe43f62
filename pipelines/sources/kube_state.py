"""Source `kube_state`: kube-state-metrics (in a Prometheus or as exposition text), or kubectl's objects.

A pod holds what it asked for from when its node took it in to when it was over. One that waits for a node, or is
over, holds nothing, however long the series of its requests go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import polars as pl
import yaml

from exporter.errors import SourceError
from pipelines.facts import joined, rows_of
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.kube_model import Node, Pod, SlicesUnknownError, held
from pipelines.sources.kube_objects import add_objects, objects_in
from pipelines.sources.kube_series import STALE_MS, KubeSeries, Spell, metrics_read, split_by_time
from pipelines.sources.labels import BadSeriesError, parse_series
from pipelines.sources.tally import Tally
from pipelines.tables import RECORD, Batch

_MAX_OBJECT_BYTES: Final = 1 << 30


def read_kube_state(path: Path, *, cluster: str, at: datetime | None = None, name: str | None = None) -> Batch:
    """What pods held as records, and nodes, conditions, quotas and namespaces' labels as facts.

    Args:
        cluster: name of the cluster.
        at: when it was asked: of text without timestamps, and of objects.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read, or has no time.
    """
    tally = Tally(name or path.name)
    kube = KubeSeries(tally)
    with open_source(path) as stream:
        blocks = line_blocks(stream, tally)
        lines = [(number, line) for first, block in blocks for number, line in enumerate(block, first) if line.strip()]
    if any(line.startswith((b"kube_", b"kueue_", b"# HELP kube_", b"# TYPE kube_")) for _, line in lines):
        _add_text(kube, lines, at, path)
    else:
        _add_objects(kube, b"\n".join(line for _, line in lines), at, tally)
    return batch_of(kube, cluster=cluster, at=at)


def batch_of(kube: KubeSeries, *, cluster: str, at: datetime | None = None) -> Batch:
    """The tidy tables of what was gathered."""
    last = kube.last if at is None else max(round(at.timestamp() * 1000), kube.last or 0)
    observed = None if last is None else datetime.fromtimestamp(last / 1000, UTC)
    records = list(_records(kube, cluster, last))
    facts = joined(
        [
            rows_of("scheduler_node", _listings(kube, cluster, observed)),
            rows_of("condition", _conditions(kube, cluster, last)),
            rows_of("namespace_label", _namespace_labels(kube, cluster, observed)),
            rows_of("quota_limit", kube.quotas.rows(cluster, observed, since=_current(kube))),
        ]
    )
    table = pl.DataFrame(records, schema=RECORD) if records else pl.DataFrame(schema=RECORD)
    return Batch(records=table, findings=kube.tally.findings(), facts=facts)


def _add_text(kube: KubeSeries, lines: list[tuple[int, bytes]], at: datetime | None, path: Path) -> None:
    at_ms = None if at is None else round(at.timestamp() * 1000)
    openmetrics = path.name.removesuffix(".gz").endswith(".om")
    wanted = frozenset(metrics_read())
    series: dict[bytes, tuple[str, dict[str, str]] | None] = {}
    samples: dict[bytes, dict[int, float]] = {}
    untimed = 0
    for number, line in lines:
        head, brace, tail = line.rpartition(b"}")
        if line.startswith(b"#") or not brace:
            continue
        if head not in series:
            try:
                metric, labels, _ = parse_series(line)
            except BadSeriesError as error:
                kube.tally.add(str(error), number)
                continue
            series[head] = (metric, labels) if metric in wanted else None
        if series[head] is None:
            continue
        fields = tail.split()
        try:
            value = float(fields[0])
            t = at_ms if len(fields) == 1 else round(float(fields[1]) * 1000) if openmetrics else int(fields[1])
        except (ValueError, IndexError, OverflowError):
            kube.tally.add("line without a value", number)
            continue
        if t is None:
            untimed += 1
            continue
        samples.setdefault(head, {})[t] = value
    if untimed and not samples:
        raise SourceError(
            str(path),
            f"none of its {untimed} samples has a timestamp",
            "say when it was scraped: add `at` to this source",
        )
    for head, values in samples.items():
        told = series[head]
        if told is not None:
            kube.add(told[0], told[1], sorted(values), [values[t] for t in sorted(values)])


def _add_objects(kube: KubeSeries, text: bytes, at: datetime | None, tally: Tally) -> None:
    try:
        read = add_objects(kube, objects_in(text.decode("utf-8", "replace")), at)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        tally.add("text that is neither exposition text nor objects in JSON or YAML", mark.line + 1 if mark else None)
        return
    if not read:
        tally.add("no series of kube-state-metrics, and no object of Kubernetes that is read")


def _records(kube: KubeSeries, cluster: str, last: int | None) -> Iterator[dict[str, object]]:
    for pod in split_by_time(kube.pods.values()):
        span = _span(pod, kube, last)
        if span is None:
            continue
        start, end, ended = span
        try:
            holds = held(pod, kube.nodes.get(pod.node or ""))
        except SlicesUnknownError:
            kube.tally.add(
                "pod with slices of unknown size: let kube-state-metrics show the node label nvidia.com/gpu.replicas",
                code="gpus_not_tracked",
            )
            continue
        except ValueError as error:
            kube.tally.add(str(error))
            continue
        for each in holds:
            workload = f"{pod.namespace}/{pod.name}"
            yield {
                "kind": "kubernetes",
                "cluster": cluster,
                "workload": workload,
                "labelled_as": workload,
                "start": datetime.fromtimestamp(start / 1000, UTC),
                "end": None if end is None else datetime.fromtimestamp(end / 1000, UTC),
                "ended": ended,
                "gpus": format(each.gpus.normalize(), "f"),
                "device": each.device,
                "model": each.model,
                "nodes": [pod.node] if pod.node else [],
            }


def _span(pod: Pod, kube: KubeSeries, last: int | None) -> tuple[int, int | None, bool] | None:
    """From when to when a pod held its devices, and whether it is over; None: it holds nothing."""
    if not pod.running:
        return None
    first, newest = pod.running[0], pod.running[-1]
    start = pod.start if pod.start is not None and pod.start <= first else first
    if pod.end is not None and pod.end >= start:
        return (start, pod.end, True) if pod.end > start else None
    after = next((t for t in pod.over if t > newest), None)
    if after is not None:
        return start, after if after - newest <= 1.5 * kube.interval else newest + kube.interval, True
    if kube.last is None:  # objects: what runs when it was asked
        return start, newest if newest > start else None, False
    over = last is not None and last - newest > max(STALE_MS, 2 * kube.interval)
    return start, newest + kube.interval, over


def _listings(kube: KubeSeries, cluster: str, observed: datetime | None) -> Iterator[dict[str, object]]:
    """Yield the nodes with GPUs at the beginning, at the end, and whenever one of them came or went."""
    nodes = [node for node in kube.nodes.values() if node.gpus]
    for at, there in _answers(kube, nodes, observed):
        for node in there:
            yield {
                "cluster": cluster,
                "node": node.name,
                "model": node.model,
                "gpus": node.gpus,
                "devices": [],
                "slots": int(node.replicas) if node.replicas > 1 else None,
                "used": None,
                "observed": at,
            }


def _answers(
    kube: KubeSeries, nodes: Sequence[Node], observed: datetime | None
) -> Iterator[tuple[datetime | None, Sequence[Node]]]:
    if kube.last is None or observed is None:  # objects: as they are
        yield observed, nodes
        return
    first = min(kube.first_seen.values(), default=kube.last)
    # Series of one scrape begin at slightly different times.
    came = {n.name: t if (t := kube.first_seen[n.name]) > first + STALE_MS else first for n in nodes}
    went = {n.name: kube.seen[n.name] + kube.interval for n in nodes if not kube.is_current(n.name)}
    for at in sorted({*came.values(), *went.values()} - {kube.last}):
        yield _utc(at), [n for n in nodes if came[n.name] <= at and (n.name not in went or at < went[n.name])]
    yield observed, [n for n in nodes if n.name not in went]


def _current(kube: KubeSeries) -> int | None:
    """Since when (ms) series must have samples to be still there; None: objects are."""
    return None if kube.last is None else kube.last - STALE_MS


def _conditions(kube: KubeSeries, cluster: str, last: int | None) -> Iterator[dict[str, object]]:
    """Yield what was the case with its bounds, and of each node with GPUs how it is at the end, good or bad."""
    goes_on: dict[str, list[Spell]] = {}
    over: list[Spell] = []
    for spell in kube.spells:
        stands = last is not None and not spell.ended and spell.last >= last - STALE_MS
        (goes_on.setdefault(spell.node, []) if stands else over).append(spell)
    for spells in goes_on.values():
        spells.sort(key=lambda spell: (spell.state != "down", spell.first))
        over += spells[1:]  # the worst is how the node is; of the others it is known how long they were
    for spell in over:
        yield _row(spell, cluster, until=spell.last + (kube.interval if spell.last == spell.first else 0))
    for node in kube.nodes.values():
        if node.name in goes_on:
            yield _row(goes_on[node.name][0], cluster, observed=last)
        elif last is not None and node.gpus and (kube.last is None or kube.is_current(node.name)):
            ready = {"state": "ok", "reason": None, "from": _utc(kube.ready.get(node.name))}
            yield {**_row(Spell(node.name, "ok", "", last, last), cluster, observed=last), **ready}


def _row(spell: Spell, cluster: str, *, until: int | None = None, observed: int | None = None) -> dict[str, object]:
    return {
        "cluster": cluster,
        "node": spell.node,
        "device": None,
        "state": spell.state,
        "reason": spell.reason,
        "source": "kubernetes",
        "from": _utc(spell.first),
        "to": _utc(until),
        "observed": _utc(observed),
    }


def _utc(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _namespace_labels(kube: KubeSeries, cluster: str, observed: datetime | None) -> Iterator[dict[str, object]]:
    for namespace, labels in kube.namespaces.items():
        if kube.last is not None and not kube.is_current(namespace):
            continue
        for label, value in sorted(labels.items()):
            yield {
                "cluster": cluster, "namespace": namespace, "label": label, "value": value, "observed": observed,
            }  # fmt: skip
