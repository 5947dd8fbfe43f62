"""Small random replay directories, each made from a seed alone, for comparing two engines.

`FEATURES` names what may be mixed; of a large set each case takes some, of up to four it takes all. `DOUBTFUL` holds
what the rules leave open in ways that change numbers: only on request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from tests.oracle.random_fleet import LAYOUTS, MODELS, UNPRICED_MODEL, UTIL, Gpu, Sample, Scene, sample_gpu
from tests.oracle.random_records import SACCT_HEADER, add_allocations, add_inventory, add_jobs, add_wide_job
from tests.oracle.random_rules import settings_text

FEATURES = (
    # samples
    "irregular", "steps", "interval", "midnight", "holes", "invalid", "duplicates", "replicas", "jobs", "hosts",
    "engine", "contradicting", "temperature", "energy", "power", "resets", "frozen", "openmetrics", "shuffled",
    # owners
    "uid", "handover", "flicker", "exported", "partly_labelled", "attribution", "slices", "vgpu", "slots",
    # MIG
    "mig", "layouts", "mig_parent",
    # schedulers
    "sacct", "sacct_labels", "bare", "requeue", "running",
    "multinode", "clusters", "allocations", "nameless", "outside", "classes", "down",
    # capacity
    "inventory", "owner", "unseen",
    # money
    "rates", "unpriced", "reservations", "quota", "spot", "idle", "overheads", "charged_energy", "currency", "zones",
    "dated", "window", "budget", "models",
)  # fmt: skip
DOUBTFUL = ("netting", "repeats", "inferred_merge", "crowded_slots", "broken_contradiction", "lingering")


def make_case(seed: int, directory: Path, features: Collection[str] = FEATURES) -> None:
    """Writes `gpuledger.yaml` and its sources to a directory: the same for the same seed and features."""
    rng = Random(seed)
    active = frozenset(f for f in sorted(features) if len(features) <= 4 or rng.random() < 0.35)
    scene = _scene(rng, active)
    scene.gpus = _gpus(scene, seed)
    if scene.on("sacct"):
        add_jobs(scene)
    if scene.on("multinode"):
        add_wide_job(scene)
    add_allocations(scene)
    if scene.on("inventory") or scene.on("slots") or scene.on("owner") or scene.on("unseen"):
        add_inventory(scene)
    for gpu in scene.gpus:
        if gpu.kind != "bare":
            sample_gpu(scene, gpu)
    directory.mkdir(parents=True, exist_ok=True)
    sources = _write_sources(scene, directory)
    (directory / "gpuledger.yaml").write_text(settings_text(scene, sources))


def _scene(rng: Random, active: frozenset[str]) -> Scene:
    zone, start = "UTC", datetime(2026, 10, 5, 12, tzinfo=UTC) + timedelta(minutes=rng.randint(0, 120))
    if "zones" in active:
        zone = rng.choice(("America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"))
        day = rng.choice(("2026-11-01T00:10", "2026-10-25T01:05", "2026-10-31T22:30", "2026-10-04T00:30"))
        start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if "midnight" in active:
        start = datetime(2026, 10, 5, 23, rng.choice((5, 20)), tzinfo=UTC)
    step = rng.choice((30_000, 60_000, 300_000, 120_000)) if "steps" in active else 60_000
    count = rng.randint(30, 150) if step <= 120_000 else rng.randint(12, 72)
    base = int(start.timestamp()) * 1000
    scene = Scene(rng, active, base, step, [], zone)
    crowded = scene.merges and "crowded_slots" not in active
    wobble = step // 1000 // 5 if "irregular" in active and not crowded else 0
    scene.times = [base + i * step + rng.randint(-wobble, wobble) * 1000 for i in range(count)]
    scene.start = min(scene.times)
    return scene


def _gpus(scene: Scene, seed: int) -> list[Gpu]:
    rng = scene.rng
    kinds = ["pods"]
    kinds += [kind for kind in ("slices", "mig", "bare") if scene.on(kind)]
    kinds += ["slurm"] if scene.on("sacct") else []
    kinds += ["granted"] if scene.on("allocations") or scene.on("nameless") or scene.on("classes") else []
    if len(kinds) > 1 and not rng.randint(0, 2):
        kinds.remove("pods")
    wanted = rng.sample(kinds, min(len(kinds), 3))
    if set(wanted) <= {"bare"}:
        wanted.append("pods")
    names = [f"GPU-{seed:04}-{letter}" for letter in "abcdefghijkl"]
    rng.shuffle(names)
    gpus: list[Gpu] = []
    for number, kind in enumerate(wanted):
        choices = MODELS if scene.on("models") else MODELS[:1]
        choices = (*choices, UNPRICED_MODEL) if scene.on("unpriced") else choices
        model = rng.choice(choices)
        for _ in range(rng.randint(1, 3) if kind in ("pods", "slurm", "bare", "granted") else 1):
            card_model = rng.choice(sorted(LAYOUTS)) if kind == "mig" else model
            gpus.append(Gpu(names.pop(), len(gpus), f"node{number + 1}", card_model, kind))
    return gpus


def _write_sources(scene: Scene, directory: Path) -> list[str]:
    sources = []
    samples = list(_through_sources(scene, _distinct(scene.samples)))
    if scene.on("duplicates"):
        good = [s for s in samples if s.metric == UTIL and s.value.isdigit() and int(s.value) <= 100]
        chosen = scene.rng.sample(good, min(len(good), scene.rng.randint(1, 4)))
        values = ("1", "98") if not scene.on("repeats") else ("1", "98", None)
        samples += [replace(s, value=scene.rng.choice(values) or s.value) for s in chosen]
    if scene.on("shuffled"):
        scene.rng.shuffle(samples)
    seconds = scene.on("openmetrics")
    edge = {gpu.uuid for gpu in scene.gpus if gpu.kind == "pods" and gpu.index % 2} if scene.on("clusters") else set()
    for cluster, there in (("prod", False), ("edge", True)):
        lines = [_line(sample, seconds) for sample in samples if (sample.labels["UUID"] in edge) == there]
        if lines:
            name = f"{cluster}.{'om' if seconds else 'prom'}"
            (directory / name).write_text("\n".join([*lines, *(["# EOF"] if seconds else [])]) + "\n")
            sources.append(f"  - {{metrics: {name}, cluster: {cluster}}}")
    for file, header, rows in (
        ("sacct.txt", SACCT_HEADER, scene.sacct),
        ("allocations.csv", "start,end,gpus,device,model,tenant,workload,class", scene.allocations),
        ("inventory.csv", "node,device,model,gpus,slots,owner,from,to", scene.inventory),
    ):
        if rows:
            (directory / file).write_text("\n".join([header, *rows]) + "\n")
            kind = file.partition(".")[0]
            sources.append(f"  - {{{kind}: {file}{', cluster: prod' if kind == 'sacct' else ''}}}")
    return sources


def _distinct(samples: list[Sample]) -> list[Sample]:
    found = {(s.metric, s.at, *s.labels.items()): s for s in samples}
    return list(found.values())


def _through_sources(scene: Scene, samples: list[Sample]) -> Iterable[Sample]:
    """Each sample as one exporter shows it, or as two replicas, jobs or host names do, each with holes of its own."""
    pairs = {
        "replicas": ("prometheus_replica", ("a", "b")),
        "jobs": ("job", ("dcgm", "opencost")),
        "hosts": ("Hostname", None),
    }
    chosen = next((name for name in pairs if scene.on(name)), None)
    if chosen is None:
        return samples
    label, values = pairs[chosen]
    offset = scene.rng.choice((0, 5000, 15_000))
    found: list[Sample] = []
    for number in (0, 1):
        begin = scene.rng.choice(scene.times)
        lost = (begin, begin + scene.rng.choice((3, 10, 25)) * scene.step * scene.may_lose)
        for sample in samples:
            # The first source keeps its ends, so that the span of the data doesn't hang on the second one's offset.
            inside = scene.times[0] < sample.at < scene.times[-1]
            if lost[0] <= sample.at < lost[1] and inside:
                continue
            host = sample.labels["Hostname"]
            value = values[number] if values else (host, f"zz-{host}:9400")[number]
            if number and not inside:
                continue
            found.append(replace(sample, labels=sample.labels | {label: value}, at=sample.at + offset * number))
    return found


def _line(sample: Sample, seconds: bool) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in sample.labels.items())
    at = f"{sample.at / 1000:.3f}" if seconds else str(sample.at)
    return f"{sample.metric}{{{labels}}} {sample.value} {at}"
