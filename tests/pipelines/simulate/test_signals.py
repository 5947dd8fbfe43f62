"""The samples behave as cards do."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from exporter.catalog import BY_KEY
from pipelines.simulate import simulate
from pipelines.simulate.cards import A100, H100, T4
from pipelines.simulate.signals import METRICS

PROFILING = ("engine_active_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio")


def whole_cards(samples: pl.DataFrame, *models: str) -> pl.DataFrame:
    return samples.filter(pl.col("model").is_in(models), pl.col("instance").is_null()).sort("device", "time")


@pytest.mark.parametrize("key", METRICS)
def test_values_lie_in_the_catalogues_range_but_for_what_drivers_misread(samples: pl.DataFrame, key: str) -> None:
    values = samples[key].drop_nulls()
    wrong = [value for value in values.unique() if not BY_KEY[key].accepts(value)]
    misread = {"gpu_util_ratio", "memory_temperature_celsius"}
    assert bool(wrong) == (key in misread)
    # Once a day and file chunk: NaN is what a blank reads as.
    assert values.is_in([8_083_349.05]).sum() + values.is_nan().sum() <= 3


def test_only_cards_that_have_profiling_show_it(samples: pl.DataFrame) -> None:
    for key in PROFILING:
        assert samples.filter(model=T4.model)[key].is_null().all()
        assert samples.filter(pl.col("model") != T4.model)[key].is_not_null().all()
    assert samples.filter(pl.col("instance").is_not_null())["gpu_util_ratio"].is_null().all()
    assert samples.filter(pl.col("instance").is_null())["gpu_util_ratio"].is_not_null().all()


def test_the_energy_counter_integrates_the_power(samples: pl.DataFrame) -> None:
    steps = whole_cards(samples, H100.model, A100.model).with_columns(
        joules=pl.col("energy_joules_total").diff().over("device"),
        seconds=pl.col("time").diff().dt.total_seconds().over("device"),
        before=pl.col("power_watts").shift().over("device"),
    )
    even = steps.filter(pl.col("seconds") == 300, pl.col("joules") >= 0)
    assert even.height > 5000
    assert even.select(((pl.col("joules") / 300 - pl.col("before")).abs() / pl.col("before")).max()).item() < 0.06


def test_counters_start_again_only_where_a_driver_was_loaded(samples: pl.DataFrame, told: dict[str, Any]) -> None:
    boards = samples.select("time", "device", "node", "energy_joules_total").unique().sort("device", "time")
    resets = boards.filter(pl.col("energy_joules_total").diff().over("device") < 0)
    reload = next(i for i in told["_incidents"] if i["kind"] == "driver_reload")
    repairs = [i for i in told["_incidents"] if i["kind"] == "repair"]
    reloaded = resets.filter(node=reload["node"])
    assert set(reloaded["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")) == {reload["start"]}
    others = resets.filter(pl.col("node") != reload["node"])
    assert sorted(others["device"]) == sorted(i["device"] for i in repairs)


def test_power_and_temperature_follow_the_work(samples: pl.DataFrame) -> None:
    for card in (H100, A100):
        seen = whole_cards(samples, card.model)
        idle = seen.filter(sm_active_ratio=0.0, memory_used_bytes=0.0)
        busy = seen.filter(pl.col("sm_active_ratio") > 0.7, pl.col("tensor_active_ratio") > 0.3)
        assert idle["power_watts"].mean() == pytest.approx(card.idle_watts, rel=0.02)
        assert 0.6 * card.limit_watts < busy["power_watts"].mean() <= card.limit_watts
        assert busy["temperature_celsius"].mean() > idle["temperature_celsius"].mean() + 15
        assert seen["power_watts"].max() <= card.limit_watts


def test_used_free_and_reserved_memory_make_the_card(samples: pl.DataFrame) -> None:
    rest = samples.select(pl.col("memory_total_bytes") - pl.col("memory_used_bytes") - pl.col("memory_free_bytes"))
    assert (rest.to_series() > 0).all()
    assert (samples["memory_used_bytes"] <= samples["memory_total_bytes"]).all()


def test_an_outage_leaves_a_hole_on_one_node(samples: pl.DataFrame, told: dict[str, Any]) -> None:
    outage = next(i for i in told["_incidents"] if i["kind"] == "outage")
    span = pl.Series([outage["start"], outage["end"]]).str.to_datetime(time_zone="UTC")
    during = samples.filter(pl.col("time").is_between(span[0], span[1], closed="left"))
    assert outage["node"] not in set(during["node"])
    assert during["node"].n_unique() == samples["node"].n_unique() - 1


def test_labels_flicker_for_less_than_five_minutes_and_the_exporters_pod_shows(
    samples: pl.DataFrame, told: dict[str, Any]
) -> None:
    flicker = next(i for i in told["_incidents"] if i["kind"] == "flicker")
    start = pl.Series([flicker["start"]]).str.to_datetime(time_zone="UTC")[0]
    device = samples.filter(device=flicker["device"])
    assert device.filter(time=start)["pod"].item().startswith("nvidia-dcgm-exporter")
    around = device.filter((pl.col("time") - start).abs().is_between(pl.duration(minutes=5), pl.duration(minutes=10)))
    assert set(around["namespace"] + "/" + around["pod"]) == {flicker["workload"]}


def test_a_shared_card_shows_its_held_slices_or_itself(samples: pl.DataFrame) -> None:
    shared = samples.filter(model=T4.model)
    per_scrape = shared.group_by("device", "time").agg(
        named=pl.col("slice").is_not_null().sum(), rows=pl.len(), values=pl.struct(METRICS).n_unique()
    )
    assert ((per_scrape["named"] == per_scrape["rows"]) | (per_scrape["rows"] == 1)).all()
    assert per_scrape["rows"].max() > 2
    assert (per_scrape["values"] == 1).all()


def test_a_new_layout_uses_instance_ids_again(samples: pl.DataFrame, told: dict[str, Any]) -> None:
    change = next(i for i in told["_incidents"] if i["kind"] == "layout_change")
    card = samples.filter(device=change["device"])
    at = pl.Series([change["start"]]).str.to_datetime(time_zone="UTC")[0]
    before, after = (
        dict(part.select("instance", "profile").unique().iter_rows())
        for part in (card.filter(pl.col("time") < at), card.filter(pl.col("time") >= at))
    )
    assert before == {"1": "4g.40gb", "5": "2g.20gb", "13": "1g.10gb"}
    assert after == {"1": "3g.40gb", "5": "2g.20gb", "13": "1g.10gb"}


@pytest.fixture(scope="module")
def eights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 GPUs for four days, so that nodes hold eight cards and jobs have ranks."""
    out = tmp_path_factory.mktemp("eights")
    simulate(out, gpus=64, days=4, seed=1, start=date(2026, 11, 2), interval_s=60)
    return out


def incident(folder: Path, kind: str) -> dict[str, Any]:
    told = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return next(i for i in told["_incidents"] if i["kind"] == kind)


def during(folder: Path, span: dict[str, Any]) -> pl.DataFrame:
    start, end = pl.Series([span["start"], span["end"]]).str.to_datetime(time_zone="UTC")
    settled = pl.col("time").is_between(start + timedelta(minutes=30), end, closed="left")
    return pl.scan_parquet(folder / "samples.parquet").filter(settled).collect()


def test_a_straggler_works_on_while_its_peers_wait(eights: Path) -> None:
    story = incident(eights, "straggler")
    told = json.loads((eights / "truth.json").read_text(encoding="utf-8"))
    lags = next(w["straggler"] for w in told["_workloads"] if w["workload"] == story["workload"])
    job = during(eights, story).filter(job=story["workload"])
    means = job.group_by("device").agg(pl.col("sm_active_ratio", "tensor_active_ratio", "sm_clock_hertz").mean())
    slow, peers = means.filter(device=lags), means.filter(pl.col("device") != lags)
    assert peers.height == 7
    assert slow["sm_active_ratio"].item() > peers["sm_active_ratio"].max() + 0.15
    assert slow["sm_clock_hertz"].item() < 0.8 * peers["sm_clock_hertz"].min()
    # Nobody gets more done than the slowest.
    assert peers["tensor_active_ratio"].mean() == pytest.approx(slow["tensor_active_ratio"].item(), rel=0.05)


def test_a_starved_job_swings_and_a_fed_one_does_not(eights: Path) -> None:
    story = incident(eights, "data_starved")
    namespace, pod = story["workload"].split("/")
    starved = during(eights, story).filter(namespace=namespace, pod=pod)
    fed = during(eights, incident(eights, "multi_node")).filter(job=incident(eights, "multi_node")["workload"])
    spread = {
        name: part["sm_active_ratio"].quantile(0.9) - part["sm_active_ratio"].quantile(0.1)
        for name, part in (("starved", starved), ("fed", fed))
    }
    assert spread["starved"] > 0.4
    assert spread["fed"] < 0.1
    assert starved["sm_active_ratio"].mean() < 0.4


def test_a_throttled_card_is_hot_and_slow_and_says_so(eights: Path) -> None:
    story = incident(eights, "throttle")
    cards = during(eights, story).filter(pl.col("sm_active_ratio") > 0.5, model=H100.model)
    hot, others = cards.filter(device=story["device"]), cards.filter(pl.col("device") != story["device"])
    assert hot.height > 60
    assert (hot["throttle_reasons_bitmask"].cast(int) & 96 == 96).all()
    assert not (others["throttle_reasons_bitmask"].cast(int) & 96 != 0).any()
    assert hot["sm_clock_hertz"].mean() < 0.7 * others["sm_clock_hertz"].mean()
    assert hot["temperature_celsius"].mean() > others["temperature_celsius"].max() - 5
    assert hot["tensor_active_ratio"].mean() < others["tensor_active_ratio"].mean()
