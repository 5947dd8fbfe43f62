"""Engines that look at samples and measure them on other machines than this; the stages they run are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.config import Config
from pipelines.engine.connect import SparkEngine
from pipelines.sighting import Engine


@contextmanager
def engine_of(config: Config) -> Iterator[Engine | None]:
    """Provide the engine that a configuration names; None: samples are rolled up in this process."""
    if config.engine.spark is None:
        yield None
        return
    with SparkEngine(config.engine.spark) as engine:
        yield engine
