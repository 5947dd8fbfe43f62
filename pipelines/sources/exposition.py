"""Source `metrics`: a file of exposition text, plain or gzip."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from exporter.errors import SourceError
from pipelines.sources.files import line_blocks, open_source
from pipelines.sources.strays import without_strays
from pipelines.sources.tally import Tally
from pipelines.sources.text_format import TextReader
from pipelines.sources.training import TextObservations
from pipelines.tables import Batch

_OPENMETRICS_SUFFIX: Final = ".om"


def read_exposition(path: Path, *, cluster: str, at: datetime | None = None, name: str | None = None) -> Batch:
    """The samples of one file; what can't be read of it is counted and the rest kept.

    ``.om`` and ``.om.gz`` are OpenMetrics (timestamps in seconds), every other name is Prometheus text (ms).

    Args:
        cluster: name of the cluster that the samples are of.
        at: the time of samples without a timestamp.
        name: what findings call the file.

    Raises:
        SourceError: the file can't be read, or none of its samples has a time.
    """
    tally = Tally(name or path.name)
    observations = TextObservations(tally, cluster)
    openmetrics = path.name.removesuffix(".gz").endswith(_OPENMETRICS_SUFFIX)
    reader = TextReader(observations, tally, openmetrics=openmetrics, at=at)
    with open_source(path) as stream:
        for first, lines in line_blocks(stream, tally):
            reader.read(first, lines)
    if reader.untimed and not observations.times:
        raise SourceError(
            str(path),
            f"none of its {reader.untimed} samples has a timestamp",
            "say when it was scraped: add `at: 2026-10-05T12:00:00Z` to this source",
        )
    reader.finish()
    trainings = observations.take_trainings()
    batch = Batch(samples=observations.table(), findings=tally.findings())
    return without_strays(replace(batch, facts={"training": trainings} if trainings.height else {}), tally)
