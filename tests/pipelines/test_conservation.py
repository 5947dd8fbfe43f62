"""A device-second that is in no place or in two is an error that names the device and the hour, never clamped away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl
import pytest

from exporter.errors import ConservationError
from pipelines.conservation import check_conservation
from pipelines.fleet import Fleet
from pipelines.instants import to_ms
from tests.pipelines.scene import START, Scene, seen
from tests.pipelines.stages import run

BEGIN: Final = to_ms(START)
HOUR: Final = 3_600_000
SCENE: Final = Scene([seen("GPU-a", (0, 120), f"astro/p{n}") for n in range(3)] + [seen("GPU-b", (30, 90))])


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return run(SCENE.write(tmp_path_factory.mktemp("scene"))).metered.usage


def fleet(until: int = 120) -> Fleet:
    found = Fleet()
    found.add(cluster="hall", device="GPU-a").exists = [(BEGIN, BEGIN + until * 60_000)]
    found.add(cluster="hall", device="GPU-b").exists = [(BEGIN + HOUR // 2, BEGIN + HOUR * 3 // 2)]
    return found


def test_usage_that_adds_up_passes(usage: pl.DataFrame) -> None:
    check_conservation(usage, fleet())


second_hour_of_a = (pl.col("device") == "GPU-a") & (pl.col("start") == BEGIN + HOUR)
SPOILS: Final[dict[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "lost": lambda u: u.filter(
        ~(second_hour_of_a & (pl.col("lease") == pl.col("lease").filter(second_hour_of_a).first()))
    ),
    "twice": lambda u: pl.concat([u, u.filter(second_hour_of_a).head(1)]),
    "longer": lambda u: u.with_columns(end=pl.col("end") + pl.when(second_hour_of_a).then(5).otherwise(0)),
    "a larger share": lambda u: u.with_columns(weight_num=pl.when(second_hour_of_a).then(2).otherwise("weight_num")),
    "of another device": lambda u: u.with_columns(
        device=pl.when(second_hour_of_a).then(pl.lit("GPU-x")).otherwise("device")
    ),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_what_does_not_add_up_names_the_device_and_the_hour(
    spoil: Callable[[pl.DataFrame], pl.DataFrame], usage: pl.DataFrame
) -> None:
    with pytest.raises(ConservationError, match=r"GPU-[ax] at 2026-03-02T10:00:00Z"):
        check_conservation(spoil(usage), fleet())


def test_a_device_that_exists_without_usage_is_missed(usage: pl.DataFrame) -> None:
    with pytest.raises(
        ConservationError, match=r"GPU-a at 2026-03-02T11:00:00Z: its parts add up to 0\.000 s of 60\.000 s"
    ):
        check_conservation(usage, fleet(until=121))


def test_no_fleet_and_no_usage_is_nothing_wrong(usage: pl.DataFrame) -> None:
    check_conservation(usage.clear(), Fleet())
