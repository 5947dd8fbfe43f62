"""Random fleets over several days, as files that come day by day: what a ledger that is brought up to date sees.

Everything that reaches over midnight is in them: long and bridged leases, holes, counters that stand still, start again
or appear late, engines that contradict, XIDs, layouts that stay and change, jobs that go on, second replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from tests.pipelines.scene import A30, CONFIG, H100, SACCT, Allocation, Job, Listed

START: Final = datetime(2026, 3, 1, 6, tzinfo=UTC)
EVERY: Final = 30  # minutes between scrapes
OWNERS: Final = ("", "", "astro/a", "astro/b", "bio/c", "stray/x")
LAYOUTS: Final = ((("1", "1g.6gb"), ("2", "2g.12gb")), (("0", "4g.24gb"),))


@dataclass
class LongScene:
    """Lines of exposition text by UTC day, and the other sources in two states: as they were, as they are."""

    days: dict[str, list[str]] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    inventory: list[Listed] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, labels: dict[str, str], value: object, minute: int) -> None:
        """Add a sample."""
        at = START + timedelta(minutes=minute)
        text = ",".join(f'{k}="{v}"' for k, v in labels.items() if v)
        line = f"{name}{{{text}}} {value} {round(at.timestamp() * 1000)}"
        self.days.setdefault(f"{at:%Y-%m-%d}", []).append(line)

    def configured(self, folder: Path) -> Path:
        """Write the configuration alone."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gpuledger.yaml").write_text(yaml.safe_dump({**CONFIG, **self.config, "sources": []}))
        return folder

    def pieces(self, folder: Path) -> list[tuple[str, Path]]:
        """Write what comes over time, and return each piece's kind and file, in the order of time."""
        found: list[tuple[str, Path]] = []
        if self.inventory:
            rows = ["node,device,model,gpus,slots,owner,from,to", *(i.row(START) for i in self.inventory)]
            found.append(("inventory", _written(folder / "inventory.csv", rows)))
        for day, lines in sorted(self.days.items()):
            found.append(("metrics", _written(folder / f"{day}.prom", lines)))
        for name, jobs in (("early", self.jobs[::2]), ("late", self.jobs[1::2])):
            if jobs:
                rows = [SACCT, *(job.row(START, "UTC") for job in jobs)]
                found.append(("sacct", _written(folder / f"{name}-sacct.txt", rows)))
        if self.allocations:
            rows = ["start,end,gpus,device,model,tenant,workload,class", *(a.row(START) for a in self.allocations)]
            found.append(("allocations", _written(folder / "allocations.csv", rows)))
        return found


def _written(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def long_scene(seed: int, days: int = 6) -> LongScene:
    """Return a fleet of one to four cards over some days, the same for the same seed."""
    random, scene = Random(seed), LongScene()
    length = days * 1440
    for number in range(random.randint(1, 4)):
        if random.random() < 0.25:
            _cut_card(scene, random, f"GPU-{number}", length)
        else:
            _whole_card(scene, random, f"GPU-{number}", length)
    for number in range(random.choice((0, 0, 2, 4))):
        span = _span(random, length)
        scene.jobs.append(
            Job(str(100 + number // 2), span, random.choice(("gres/gpu=1", "gres/gpu=2")),
                random.choice(("astro", "bio")), random.choice(("rack1", "rack2", "rack9")),
                random.choice(("COMPLETED", "RUNNING")))
        )  # fmt: skip
    if random.random() < 0.3:
        scene.allocations.append(
            Allocation(_span(random, length), "1", random.choice(("", "GPU-0")), H100, "astro", "given",
                       random.choice(("", "down")))
        )  # fmt: skip
    if random.random() < 0.3:
        owner = random.choice(("", "astro"))
        scene.inventory = [Listed("rack1", f"GPU-{n}", owner=owner, slots=random.choice(("", "2"))) for n in (0, 1)]
    if random.random() < 0.5:
        scene.config["scrape_interval"] = f"{EVERY}m"
    scene.config["attribution"] = {"bridge": random.choice(("30m", "20h")), "flicker": random.choice(("5m", "3h"))}
    scene.config["timezone"] = random.choice(("UTC", "Asia/Kolkata"))
    return scene


def _span(random: Random, length: int) -> tuple[int, int]:
    start = random.randrange(0, length - 60)
    return start, random.randint(start + 30, length)


def _stretches(random: Random, length: int, mean: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < length:
        end = min(length, start + max(EVERY, round(random.expovariate(1 / mean))))
        yield start, end
        start = end


def _whole_card(scene: LongScene, random: Random, device: str, length: int) -> None:
    node = random.choice(("rack1", "rack2"))
    moves = random.random() < 0.1  # to another node, half-way
    counter, since = random.random() < 0.8, random.choice((0, 0, 0, length // 2))
    replicas = ("a", "b") if random.random() < 0.1 else ("",)
    energy = 1000.0 * random.randint(0, 9)
    engine = random.random() < 0.5
    xid = 0
    for first, end in _stretches(random, length, random.choice((300, 2000, 6000))):
        how = random.choice(("run", "run", "run", "frozen", "hole", "against", "unlabelled"))
        if how == "hole":
            continue
        owner = "" if how == "unlabelled" else random.choice(OWNERS)
        sharers = [owner] + (["bio/z"] if owner and random.random() < 0.05 else [])
        uid = random.choice(("", "u1", "u1"))
        util = random.choice((0, 50, 90, 130))
        for minute in range(-(-first // EVERY) * EVERY, end, EVERY):
            if random.random() < 0.01:
                continue
            if how != "frozen":
                energy = random.choice((energy + 5e6,) * 50 + (3.0,))
            xid = 79 if random.random() < 0.004 else xid
            for sharer in sharers:
                namespace, _, pod = sharer.partition("/")
                for replica in replicas:
                    labels = {
                        "UUID": device, "modelName": H100, "prometheus_replica": replica,
                        "Hostname": "rack7" if moves and minute > length // 2 else node,
                        "namespace": namespace, "pod": pod, "pod_uid": f"{uid}-{pod}" if uid and pod else "",
                    }  # fmt: skip
                    later = minute + (7 if replica == "b" else 0)
                    scene.add("DCGM_FI_DEV_GPU_UTIL", labels, util, later)
                    scene.add("DCGM_FI_DEV_POWER_USAGE", labels, 250, later)
                    scene.add("DCGM_FI_DEV_XID_ERRORS", labels, xid, later)
                    if engine:
                        scene.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, 0 if how == "against" else 0.5, later)
                    if counter and minute >= since:
                        scene.add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels, energy, later)


def _cut_card(scene: LongScene, random: Random, device: str, length: int) -> None:
    energy = 0.0
    for first, end in _stretches(random, length, 2500):
        layout = random.choice((*LAYOUTS, ()))
        owners = [random.choice(OWNERS) for _ in layout]
        for minute in range(-(-first // EVERY) * EVERY, end, EVERY):
            energy += 3e6
            whole = {"UUID": device, "modelName": A30, "Hostname": "rack3"}
            scene.add("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", whole, energy, minute)
            for (instance, profile), owner in zip(layout, owners, strict=True):
                namespace, _, pod = owner.partition("/")
                labels = whole | {"GPU_I_ID": instance, "GPU_I_PROFILE": profile, "namespace": namespace, "pod": pod}
                scene.add("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, random.choice((0.2, 0.7)), minute)
