"""Scenes with their analysis, and what was idle in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from pipelines.analysis.hours import analyse
from pipelines.idle.found import Idle, find_idle
from pipelines.idle.items import Item
from pipelines.instants import HOUR_MS, from_ms
from pipelines.periods import Period
from pipelines.rated import Rated
from pipelines.sources import read
from tests.pipelines.scene import Scene
from tests.pipelines.stages import AS_OF, Stages, run


def analysed(directory: Path) -> Stages:
    """A directory's stages, its analysis among them."""
    stages = run(directory)
    samples = pl.concat([read(source, stages.config).samples for source in stages.config.sources], how="diagonal")
    usage = stages.metered.usage
    hours = (usage["start"] // HOUR_MS * HOUR_MS).unique().to_list()
    found = analyse(samples, usage, stages.metered.leases, hours)
    return replace(stages, metered=replace(stages.metered, analysis=found))


def idle_of(scene: Scene, directory: Path) -> tuple[Idle, Rated, Stages]:
    """What was idle in a scene, and what it was found in."""
    stages = analysed(scene.write(directory))
    rated = stages.rated()
    period = Period(*(from_ms(t) for t in stages.within))
    return find_idle(stages.metered, rated, stages.config, period, AS_OF), rated, stages


def one(idle: Idle, cause: str) -> Item:
    """The one item of a cause."""
    (item,) = [item for item in idle.items if item.cause == cause]
    return item
