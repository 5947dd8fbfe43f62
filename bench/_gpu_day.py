"""A day of GPUs as dcgm-exporter tells it, written into the blocks of a Prometheus: what the ingest benchmark reads.

Who holds what changes through the day, readings are as coarse or as noisy as DCGM's, and all that a reader has to
settle is in it: blank and impossible values, a counter that starts again, holes, and a second replica for a while.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

START_MS = 1_791_158_400_000  # 2026-10-05T00:00:00Z
DAY_S = 86_400
BLANK = 9223372036854775794.0  # DCGM's INT64 "not found"
PER_NODE = 8
TENANTS = 6
AWAY = 40  # scrapes: ten minutes
HALVES = 2  # as many promtools as cores: each writes the blocks of its part of the day


@dataclass(frozen=True)
class Hold:
    """A pod on a card, over scrapes [first, last)."""

    card: int
    first: int
    last: int
    namespace: str
    pod: str


@dataclass(frozen=True)
class GpuDay:
    """Values by exposed name (cards × scrapes, NaN: not scraped) and who held what."""

    cards: int
    interval_s: int
    values: dict[str, Floats]
    holds: list[Hold]

    @property
    def scrapes(self) -> int:
        """Scrapes of a card."""
        return DAY_S // self.interval_s

    @property
    def samples(self) -> int:
        """Samples of all metrics."""
        series = [(card, scrapes) for card, _, scrapes in _series(self)]
        return sum(int((~np.isnan(v[card, scrapes])).sum()) for v in self.values.values() for card, scrapes in series)

    def times(self, card: int) -> npt.NDArray[np.int64]:
        """When a card is scraped, in ms; each node has an offset of its own."""
        offset = card // PER_NODE * 1733 % (1000 * self.interval_s)
        return START_MS + offset + 1000 * self.interval_s * np.arange(self.scrapes)

    def replicated(self, card: int) -> npt.NDArray[np.int64]:
        """Scrapes that a second replica has too; in the middle of them the first one was away."""
        first = self.scrapes // 3
        return np.arange(first, first + self.scrapes // 12 if card < PER_NODE else first)


def simulate(cards: int, interval_s: int, seed: int = 7) -> GpuDay:
    """Make the day; the same arguments make the same day."""
    rng = np.random.default_rng(seed)
    shape = (cards, DAY_S // interval_s)
    holds = list(_holds(rng, cards, shape[1]))
    busy = np.zeros(shape)
    for hold in holds:
        level = rng.choice([0.15, 0.55, 0.8, 0.97])
        busy[hold.card, hold.first : hold.last] = level + 0.06 * rng.standard_normal(hold.last - hold.first)
    values = _readings(rng, busy.clip(0, 1))
    _spoil(rng, values, holds)
    return GpuDay(cards, interval_s, values, holds)


def _holds(rng: np.random.Generator, cards: int, scrapes: int) -> Iterator[Hold]:
    hour = scrapes // 24
    for card in range(cards):
        last = 0
        while (first := last + int(rng.integers(hour // 12, hour))) < scrapes:
            last = min(first + int(rng.integers(hour, 10 * hour)), scrapes)
            yield Hold(card, first, last, f"team-{rng.integers(TENANTS)}", f"train-{card}-{first}")


def _readings(rng: np.random.Generator, busy: Floats) -> dict[str, Floats]:
    """What dcgm-exporter's default set shows of cards that are this busy: whole numbers, or six decimals."""
    held, none = busy > 0, np.zeros_like(busy)

    def noisy(value: Floats, spread: float) -> Floats:
        return (value * (1 + spread * rng.standard_normal(busy.shape))).clip(0)

    power = noisy(np.where(held, 120 + 560 * busy, 71.0), 0.008).round(3)
    heat = (32 + (power - 70) / 18).round()
    util = np.where(held, (busy * 100).round().clip(1, 100), 0)
    used = np.where(held, 40_000 + 1000 * (np.arange(len(busy))[:, None] % 30), 4)
    begun = rng.integers(1, 90, (len(busy), 1)) * 1e9
    readings = {
        "DCGM_FI_DEV_SM_CLOCK": np.where(held, 1980, 345),
        "DCGM_FI_DEV_MEM_CLOCK": none + 2619,
        "DCGM_FI_DEV_MEMORY_TEMP": heat + 7,
        "DCGM_FI_DEV_GPU_TEMP": heat,
        "DCGM_FI_DEV_POWER_USAGE": power,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": (begun + np.cumsum(power * 15_000, axis=1)).round(),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": none,
        "DCGM_FI_DEV_GPU_UTIL": util,
        "DCGM_FI_DEV_MEM_COPY_UTIL": (util * 0.45).round(),
        "DCGM_FI_DEV_ENC_UTIL": none,
        "DCGM_FI_DEV_DEC_UTIL": none,
        "DCGM_FI_DEV_XID_ERRORS": none,
        "DCGM_FI_DEV_FB_FREE": 81_000 - used,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_RESERVED": none + 559,
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": none,
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": none,
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": none,
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS": none,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy.round(6),
        "DCGM_FI_PROF_SM_ACTIVE": noisy(busy * 0.8, 0.02).round(6).clip(0, 1),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": noisy(busy * 0.4, 0.05).round(6).clip(0, 1),
        "DCGM_FI_PROF_DRAM_ACTIVE": noisy(busy * 0.5, 0.03).round(6).clip(0, 1),
        "DCGM_FI_PROF_PCIE_TX_BYTES": noisy(busy * 2e8, 0.1).round(),
        "DCGM_FI_PROF_PCIE_RX_BYTES": noisy(busy * 4e8, 0.1).round(),
    }
    return {name: np.array(values, np.float64) for name, values in readings.items()}


def _spoil(rng: np.random.Generator, values: dict[str, Floats], holds: list[Hold]) -> None:
    """Put in what a reader has to settle."""
    for name, blank, count in (
        ("DCGM_FI_DEV_POWER_USAGE", BLANK, 300),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.37, 200),
        ("DCGM_FI_PROF_SM_ACTIVE", BLANK, 100),
        ("DCGM_FI_DEV_GPU_TEMP", 0.0, 100),
    ):
        values[name].flat[rng.choice(values[name].size, count, replace=False)] = blank
    energy = values["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
    half = energy.shape[1] // 2
    energy[1, half:] -= energy[1, half] - 5_000  # the driver was loaded again
    long = [hold for hold in holds if hold.last - hold.first > 200][:: max(1, len(holds) // 20)]
    for hold in long:  # the exporter was away for ten minutes
        middle = (hold.first + hold.last) // 2
        for value in values.values():
            value[hold.card, middle : middle + AWAY] = np.nan


def write_blocks(day: GpuDay, folder: Path) -> None:
    """Write the day into blocks of a Prometheus's storage.

    Raises:
        subprocess.CalledProcessError: promtool refuses it.
    """
    parts = np.array_split(np.arange(day.scrapes), HALVES)
    texts = [folder.with_name(f"{folder.name}-{number}.om") for number in range(HALVES)]
    for text, scrapes in zip(texts, parts, strict=True):
        _write_text(day, text, int(scrapes[0]), int(scrapes[-1]) + 1)
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics"]
    tools = [subprocess.Popen([*command, str(text), str(folder)], stdout=subprocess.DEVNULL) for text in texts]
    statuses = [tool.wait() for tool in tools]
    for text in texts:
        text.unlink()
    if any(statuses):
        raise subprocess.CalledProcessError(max(statuses), command)


def _write_text(day: GpuDay, path: Path, first: int, last: int) -> None:
    """OpenMetrics of scrapes [first, last)."""
    labels, cards, scrapes = [], [], []
    for card, text, which in _series(day):
        inside = which[(which >= first) & (which < last)]
        labels += [text] * len(inside)
        cards.append(np.full(len(inside), card))
        scrapes.append(inside)
    card, scrape, text = np.concatenate(cards), np.concatenate(scrapes), pl.Series(labels)
    seconds = np.array([day.times(n) for n in range(day.cards)])[card, scrape] / 1000
    with path.open("wb") as file:
        for name, values in day.values.items():
            column = values[card, scrape]
            there = ~np.isnan(column)
            table = pl.DataFrame({"series": name + text, "value": column, "time": seconds}).filter(pl.Series(there))
            if (column[there] == column[there].round()).all() and column[there].max() < 2**53:
                table = table.with_columns(pl.col("value").cast(pl.Int64))
            table.write_csv(file, include_header=False, separator=" ", quote_style="never")
        file.write(b"# EOF\n")


def _series(day: GpuDay) -> Iterator[tuple[int, str, npt.NDArray[np.int64]]]:
    """Card, labels and scrapes of each label set."""
    for card in range(day.cards):
        holder = np.full(day.scrapes, -1)
        holds = [hold for hold in day.holds if hold.card == card]
        for number, hold in enumerate(holds):
            holder[hold.first : hold.last] = number
        second = day.replicated(card)
        away = second[len(second) // 2 :][:AWAY]
        recorded = {"a": np.setdiff1d(np.arange(day.scrapes), away), "b": second}
        for replica, scrapes in recorded.items() if len(second) else [(None, np.arange(day.scrapes))]:
            for number in np.unique(holder[scrapes]):
                hold = None if number < 0 else holds[number]
                yield card, _labels(card, hold, replica), scrapes[holder[scrapes] == number]


def _labels(card: int, hold: Hold | None, replica: str | None) -> str:
    """The labels of dcgm-exporter under the Prometheus operator."""
    owner = (
        f'exported_container="main",exported_namespace="{hold.namespace}",exported_pod="{hold.pod}",' if hold else ""
    )
    pair = f',prometheus_replica="{replica}"' if replica else ""
    node, index = divmod(card, PER_NODE)
    return (
        f'{{DCGM_FI_DRIVER_VERSION="590.48.01",Hostname="node-{node:03}",UUID="GPU-{card:08}-1111-2222-3333-444455556666",'
        f'container="exporter",device="nvidia{index}",endpoint="gpu-metrics",{owner}gpu="{index}",'
        f'instance="10.0.0.{node}:9400",job="nvidia-dcgm-exporter",modelName="NVIDIA H100 80GB HBM3",'
        f'namespace="gpu-operator",pci_bus_id="00000000:{index:02}:00.0",pod="nvidia-dcgm-exporter-{node}"{pair},'
        f'service="nvidia-dcgm-exporter"}}'
    )
