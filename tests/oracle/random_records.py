"""Random scheduler records, outages and inventories that fit the GPUs of a scene."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from tests.oracle.random_fleet import MODELS, Gpu, Scene

SACCT_HEADER = (
    "JobID|JobIDRaw|JobName|Account|User|Partition|QOS|State|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES"
)
TENANTS = ("vision", "nlp", "hpc")


def add_jobs(scene: Scene) -> None:
    """Jobs on the nodes that Slurm runs: what they hold always fits, whoever of them is placed first."""
    rng = scene.rng
    nodes: dict[str, list[Gpu]] = defaultdict(list)
    for gpu in scene.gpus:
        if gpu.kind in ("slurm", "bare"):
            nodes[gpu.node].append(gpu)
    number = 100
    for node, gpus in sorted(nodes.items()):
        busy: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for _ in range(rng.randint(1, 5)):
            number += 1
            cursor = scene.start
            for run in range(rng.randint(2, 3) if scene.on("requeue") and rng.random() < 0.5 else 1):
                start = cursor + rng.randint(0, max(1, (scene.end - cursor) // 3000)) * 1000
                end = min(scene.end, start + rng.randint(60, max(61, (scene.end - scene.start) // 1500)) * 1000)
                free = [g for g in gpus if all(end <= s or e <= start for s, e in busy[g.uuid])]
                if end <= start or not free:
                    continue
                chosen = rng.sample(free, rng.randint(1, len(free)))
                for gpu in chosen:
                    busy[gpu.uuid].append((start, end))
                if gpus[0].kind == "slurm" and scene.on("sacct_labels") and rng.random() < 0.7:
                    _label(scene, chosen, str(number), start, end)
                _job_row(scene, str(number), node, chosen, start, end, run)
                cursor = end + 1000


def add_wide_job(scene: Scene) -> None:
    """A job over several nodes that nothing else knows."""
    start, end = _span(scene)
    far = [Gpu("", 0, "far[1-2,04]", MODELS[0], "bare")] * scene.rng.randint(3, 8)
    _job_row(scene, str(900 + scene.rng.randint(0, 3)), "far[1-2,04]", far, start, end, 0)


def _label(scene: Scene, gpus: list[Gpu], job: str, start: int, end: int) -> None:
    """The job's label on its devices: from a late first scrape on, lingering after its end."""
    late, linger = (scene.rng.choice((0, 1, 5)) * scene.step for _ in range(2))
    if scene.on("requeue") and not scene.on("lingering"):
        linger = 0
    inside = [i for i, at in enumerate(scene.times) if start + late <= at < end]
    if not inside:
        inside = [i for i, at in enumerate(scene.times) if start <= at < end][:1]
    for gpu in gpus:
        for index in inside:
            gpu.jobs[index] = job
        for index, at in enumerate(scene.times):
            if inside and end <= at < end + linger:
                gpu.jobs.setdefault(index, job)


def _job_row(scene: Scene, job: str, node: str, gpus: list[Gpu], start: int, end: int, run: int) -> None:
    rng = scene.rng
    count, word = len(gpus), {"H100": "h100", "A100": "a100", "L40S": "l40s"}
    models = {gpu.model for gpu in gpus}
    kind = next((short for long, short in word.items() if long in gpus[0].model), None)
    tres = f"billing={count},cpu=8,gres/gpu={count}"
    if kind and len(models) == 1 and rng.random() < 0.6:
        tres = f"cpu=8,gres/gpu:{kind}={count},gres/gpu={count},node=1"
    accounts = ["vision", "nlp", "hpc", "stray"]
    account = accounts[int(job) % 4]
    qos = "scavenger" if scene.on("spot") and int(job) % 3 == 0 else "normal"
    elapsed = (end - start) // 1000
    state, finish = ("COMPLETED" if run == 0 else "REQUEUED"), _local(end, scene.zone)
    head = f"{job}|{job}|train|{account}|u{int(job) % 3}|gpu|{qos}"
    if scene.on("running") and end == scene.end:
        state, finish = "RUNNING", "Unknown"
    elif scene.on("running") and rng.random() < 0.4:
        early = max(1, elapsed // 2)
        submit = _local(start, scene.zone)
        scene.sacct.append(f"{head}|RUNNING|{submit}|{submit}|Unknown|{early}|1|{node}|{tres}")
    begin = _local(start, scene.zone)
    scene.sacct.append(f"{head}|{state}|{begin}|{begin}|{finish}|{elapsed}|1|{node}|{tres}")
    scene.sacct.append(
        f"{job}.batch|{job}.batch|batch|{account}||||{state}|{begin}|{begin}|{finish}|{elapsed}|1|{node}|{tres}"
    )


def add_allocations(scene: Scene) -> None:
    """Rows on devices that no label names, rows without a device, and outages."""
    rng = scene.rng
    for gpu in [g for g in scene.gpus if g.kind == "granted"]:
        cursor, number = scene.start, 0
        while cursor < scene.end - 120_000 and number < 3:
            start = cursor + rng.randint(0, 20) * 30_000
            end = min(scene.end, start + rng.randint(1, 60) * 60_000)
            if start >= end:
                break
            number, cursor = number + 1, end
            device = "" if scene.on("nameless") and gpu.index % 2 else gpu.uuid
            given = rng.choice(("", "", "on_demand", "overflow", "spot")) if scene.on("classes") else ""
            tenant = rng.choice((*TENANTS, ""))
            workload = f"grant-{gpu.index}-{number}"
            scene.allocations.append(f"{_utc(start)},{_utc(end)},1,{device},{gpu.model},{tenant},{workload},{given}")
    if scene.on("outside"):
        start, end = _span(scene)
        scene.allocations.append(f"{_utc(start)},{_utc(end)},{rng.randint(1, 3)},,NVIDIA B200,vision,far-1,")
    if scene.on("down"):
        seen = [g for g in scene.gpus if g.kind != "bare"]
        for number in range(rng.randint(1, 2)):
            start, end = _span(scene)
            gpu = rng.choice(seen)
            device, gpus = (gpu.uuid, 1) if rng.random() < 0.6 else ("", rng.randint(1, 2))
            tenant = rng.choice(("vision", "nlp", ""))
            scene.allocations.append(
                f"{_utc(start)},{_utc(end)},{gpus},{device},{gpu.model},{tenant},fix-{number},down"
            )


def add_inventory(scene: Scene) -> None:
    """Named rows, nameless rows with more or fewer GPUs than are seen, devices never seen; slots where slices are."""
    rng = scene.rng
    nodes: dict[str, list[Gpu]] = defaultdict(list)
    for gpu in scene.gpus:
        if gpu.kind != "bare":
            nodes[gpu.node].append(gpu)
    for node, gpus in sorted(nodes.items()):
        owner = rng.choice(("", *TENANTS)) if scene.on("owner") else ""
        span = rng.choice((",", f"{_utc(scene.start)},{_utc(scene.times[-1] + 2 * scene.step)}"))
        slots = rng.choice(("3", "4")) if scene.on("slots") and gpus[0].kind == "slices" else ""
        style = rng.choice(("named", "nameless", "none")) if not slots else rng.choice(("named", "nameless"))
        if style == "named":
            for gpu in gpus:
                scene.inventory.append(f"{node},{gpu.uuid},{gpu.model},1,{slots},{owner},{span}")
            if scene.on("unseen"):
                model = rng.choice(MODELS)
                scene.inventory.append(f"{node},GPU-unseen-{node},{model},1,{slots},{owner},{span}")
        elif style == "nameless":
            for model in sorted({g.model for g in gpus}):
                count = sum(g.model == model for g in gpus) + (rng.choice((0, 0, 1, 2)) if scene.on("unseen") else 0)
                scene.inventory.append(f"{node},,{model},{count},{slots},{owner},{span}")


def _span(scene: Scene) -> tuple[int, int]:
    points = sorted(scene.rng.sample(range((scene.end - scene.start) // 10_000), 2))
    return scene.start + points[0] * 10_000, scene.start + points[1] * 10_000


def _utc(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(at: int, zone: str) -> str:
    return datetime.fromtimestamp(at // 1000, ZoneInfo(zone)).strftime("%Y-%m-%dT%H:%M:%S")
