"""Which devices a scheduler says its runs hold → runs on named devices, as labels give them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipelines.fleet import Fleet
from pipelines.owners import NamedRun


def held_runs(labelled: Sequence[NamedRun], holdings: pl.DataFrame, fleet: Fleet) -> list[NamedRun]:
    """Return the runs that labels and the scheduler name; where the scheduler does, it is believed.

    Args:
        labelled: what labels show.
        holdings: ``facts.HOLDING``; a device that nothing else knows is added to the fleet.
        fleet: the devices seen.
    """
    if holdings.is_empty():
        return list(labelled)
    known = {(device.cluster, device.key): device.dev for device in fleet.devices}
    since: dict[str, int] = {}
    runs = []
    rows = holdings.select("cluster", "labelled_as", pl.col("start").dt.epoch("ms"), "node", "device").unique()
    for cluster, labelled_as, start, node, device in rows.sort("start", "labelled_as", "device").iter_rows():
        dev = known.get((cluster, device))
        if dev is None:
            dev = known[cluster, device] = fleet.add(cluster=cluster, device=device, node=node).dev
        runs.append(NamedRun(dev, labelled_as, start, start))
        since[labelled_as] = min(start, since.get(labelled_as, start))
    return [*(run for run in labelled if run.last < since.get(run.labelled_as, run.last + 1)), *runs]
