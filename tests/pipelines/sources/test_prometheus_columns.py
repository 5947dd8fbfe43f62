"""The sample table is the same, however it is put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources.identities import Identities
from pipelines.sources.prometheus.answer import Answer
from pipelines.sources.prometheus.columns import Columns
from pipelines.sources.tally import Tally
from pipelines.sources.wide import Observations
from pipelines.tables import SAMPLE_LABELS

POOL: Final = ThreadPoolExecutor(2)
Series = tuple[Mapping[str, str], Sequence[tuple[int, float]]]

NAMES = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_GPU_UTIL_RATIO",  # the same metric by its newer name
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "gpuledger_gpu_util_ratio",
    "nvidia_smi_gpu_info",
    "up",
)
LABELS = (
    {"UUID": "GPU-b", "Hostname": "n1"},
    {"UUID": "GPU-a", "Hostname": "n1", "modelName": "H100"},
    {"UUID": "GPU-a", "Hostname": "n1", "modelName": "H100", "exported_pod": "p", "exported_namespace": "v"},
    {"UUID": "GPU-a", "Hostname": "n1", "modelName": "H100", "device": "nvidia0"},  # the second's identity
    {"uuid": "1c67088e-9ecb-4564-bb97-6151ecc2ef64", "name": "H200", "index": "3"},
    {"UUID": "GPU-a", "nvlink": "1"},
    {"job": "x"},
)
VALUES = st.sampled_from(
    [0.0, 1.0, 50.0, 0.1, 2147483632.0, 2147483640.5, 9.3e18, 140737488355329.0, float("inf"), float("nan"), 7e9]
)
SAMPLES = st.dictionaries(st.sampled_from([15_000 * n for n in range(6)]), VALUES, max_size=6)


@st.composite
def answers(draw: st.DrawFn) -> list[tuple[str, list[Series]]]:
    named = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5))
    return [
        (name, [(LABELS[n], sorted(draw(SAMPLES).items())) for n in draw(st.permutations(range(len(LABELS))))])
        for name in named
    ]


def answer(series: Sequence[Series]) -> Answer:
    flat = [sample for _, samples in series for sample in samples]
    return Answer.of(
        [labels for labels, _ in series],
        np.array([len(samples) for _, samples in series], np.int64),
        np.array([time for time, _ in flat], np.int64),
        np.array([value for _, value in flat], np.float64),
    )


@settings(max_examples=50)
@given(asked=answers())
def test_columns_are_what_rows_one_by_one_give(asked: list[tuple[str, list[Series]]]) -> None:
    counted, tally = Tally("s"), Tally("s")
    rows, columns = Observations(counted, "c"), Columns(tally, Identities("c"), POOL)
    for name, series in asked:
        for labels, samples in series:
            number = rows.series_of(name, labels)
            for time, value in samples if number >= 0 else ():
                rows.append(time, number, value)
        columns.add(name, answer(series))
    expected, found = rows.table(), columns.table()
    assert set(found.columns) == set(expected.columns)
    order = list(SAMPLE_LABELS)
    assert found.sort(order).equals(expected.sort(order).select(found.columns))
    assert found.height == 0 or found.equals(found.sort("device", maintain_order=True))
    duplicates = [finding for finding in counted.findings() if finding.code == "duplicate_sample"]
    assert [finding for finding in tally.findings() if finding.code == "duplicate_sample"] == duplicates


def test_where_all_metrics_are_scraped_together_no_column_is_copied_into_place() -> None:
    times = [(15_000 * n, float(n)) for n in range(4)]
    columns = Columns(Tally("s"), Identities("c"), POOL)
    for name in ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"):
        columns.add(name, answer([(LABELS[1], times), (LABELS[0], times)]))
    table = columns.table()
    assert table["device"].to_list() == ["GPU-a"] * 4 + ["GPU-b"] * 4
    assert table["power_watts"].to_list() == table["temperature_celsius"].to_list() == [0.0, 1.0, 2.0, 3.0] * 2
    assert isinstance(table, pl.DataFrame)
