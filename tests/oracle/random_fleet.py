"""Random GPUs and what an exporter would have said of them: pods, time slices, MIG instances, counters, bad samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S")
UNPRICED_MODEL = "Tesla T4"
LAYOUTS = {
    "NVIDIA H100 80GB HBM3": (
        (("1", "3g.40gb"), ("5", "2g.20gb"), ("9", "1g.20gb")),
        (("2", "4g.40gb"), ("1", "3g.40gb")),
        (("7", "1g.10gb"), ("8", "1g.10gb"), ("1", "3g.40gb")),
        (("0", "7g.80gb"),),
    ),
    "NVIDIA A100-SXM4-40GB": (
        (("1", "3g.20gb"), ("5", "2g.10gb"), ("13", "1g.5gb")),
        (("7", "1g.5gb"), ("8", "1g.5gb"), ("9", "1g.5gb"), ("10", "1g.5gb")),
        (("1", "3g.20gb"), ("2", "3g.20gb")),
    ),
    "NVIDIA A30": ((("3", "1g.6gb"), ("4", "1g.6gb"), ("2", "2g.12gb")), (("0", "4g.24gb"),)),
    "NVIDIA H200": ((("1", "3g.71gb"), ("5", "2g.35gb"), ("9", "1g.35gb")), (("1", "3g.71gb"), ("9", "1g.18gb"))),
}
NAMESPACES = ("vision", "vision-b", "nlp", "spot-x", "stray")
ENGINE, UTIL = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"
POWER, ENERGY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
BAD = {
    UTIL: ("808334905", "101", "2147483633", "NaN", "9223372036854775794"),
    ENGINE: ("1.5", "1.03", "+Inf", "140737488355329", "9223372036854775792"),
    POWER: ("3001", "2147483632", "9223372036854775794"),
    ENERGY: ("9223372036854775794",),
    TEMPERATURE: ("201", "9223372036854775794"),
}

Labels = dict[str, str]


@dataclass
class Sample:
    metric: str
    labels: Labels
    value: str
    at: int


@dataclass
class Scene:
    """What a case is made of. Times are UTC milliseconds; `times` are the scrapes, records keep to [start, end)."""

    rng: Random
    active: frozenset[str]
    start: int
    step: int
    times: list[int]
    zone: str
    gpus: list[Gpu] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    sacct: list[str] = field(default_factory=list)
    allocations: list[str] = field(default_factory=list)
    inventory: list[str] = field(default_factory=list)
    pods: int = 0

    @property
    def end(self) -> int:
        return self.times[-1] + (0 if self.on("irregular") else self.step)

    @property
    def may_lose(self) -> bool:
        """Whether scrapes may be missing: whether a contradiction lasts through a hole is an open question."""
        return not self.on("contradicting") or self.on("broken_contradiction")

    @property
    def merges(self) -> bool:
        """Whether two sources show the same devices."""
        return any(self.on(feature) for feature in ("replicas", "jobs", "hosts"))

    def on(self, feature: str) -> bool:
        return feature in self.active


@dataclass
class Gpu:
    """A card; `kind` is pods, slices, mig, slurm or bare (no samples, only accounting); `jobs` by scrape index."""

    uuid: str
    index: int
    node: str
    model: str
    kind: str
    jobs: dict[int, str] = field(default_factory=dict)

    @property
    def labels(self) -> Labels:
        return {"gpu": str(self.index), "UUID": self.uuid, "modelName": self.model, "Hostname": self.node}


def sample_gpu(scene: Scene, gpu: Gpu) -> None:
    """Adds what was scraped of one card to the scene."""
    rng = scene.rng
    lost = _holes(scene)
    kept = [index for index in range(len(scene.times)) if index not in lost]
    found: list[Sample] = []
    if gpu.kind == "mig":
        found = list(_mig_samples(scene, gpu, kept))
    else:
        variants = _slice_owners(scene) if gpu.kind == "slices" else None
        owners = _timeline(scene) if gpu.kind == "pods" else [{} for _ in scene.times]
        for index, job in gpu.jobs.items():
            owners[index] = {"hpc_job": job}
        values = _values(scene, _board_metrics(scene) | _unit_metrics(scene))
        for index in kept:
            named = variants[index] if variants else [owners[index]]
            for labels in named:
                for metric, series in values.items():
                    unlabelled = metric == TEMPERATURE and scene.on("partly_labelled")
                    all_labels = gpu.labels if unlabelled else gpu.labels | labels
                    found.append(Sample(metric, all_labels, series[index], scene.times[index]))
    if scene.on("invalid"):
        # Where a blank counter leaves the ends of a frozen run is an open question.
        open_to_it = [s for s in found if not (s.metric == ENERGY and scene.on("frozen"))]
        for sample in rng.sample(open_to_it, min(len(open_to_it), rng.randint(1, 6))):
            for twin in found:
                if twin.at == sample.at and twin.metric == sample.metric:
                    twin.value = rng.choice(BAD[sample.metric])
    scene.samples += found


def _holes(scene: Scene) -> set[int]:
    """Scrapes that never happened: not the first ones, not the last ones."""
    lost: set[int] = set()
    if scene.on("holes") and scene.may_lose:
        for _ in range(scene.rng.randint(1, 3)):
            begin = scene.rng.randint(3, max(3, len(scene.times) - 8))
            length = scene.rng.choice((1, 2, 5, 10, 28, 29, 30, 31, 40))
            lost |= set(range(begin, min(begin + length, len(scene.times) - 4)))
    return lost


def _new_pod(scene: Scene) -> Labels:
    scene.pods += 1
    labels = {"namespace": scene.rng.choice(NAMESPACES), "pod": f"p{scene.pods % 7}x{scene.pods}", "container": "c"}
    if scene.on("clusters") and scene.rng.random() < 0.4:
        labels |= {"namespace": "vision", "pod": "same"}
    elif scene.on("uid") and scene.rng.random() < 0.6:
        labels["pod_uid"] = f"uid-{scene.pods}"
    if scene.on("exported"):
        own = {f"exported_{key}": labels[key] for key in ("namespace", "pod", "container")}
        rest = {"pod_uid": labels["pod_uid"]} if "pod_uid" in labels else {}
        return own | rest | {"namespace": "monitoring", "pod": "dcgm-exporter-7x"}
    return labels


def _timeline(scene: Scene) -> list[Labels]:
    """The owner's labels at each scrape of one device that is never shared; {} is nobody."""
    rng, count = scene.rng, len(scene.times)
    nobody: Labels = {"namespace": "monitoring", "pod": "dcgm-exporter-7x"} if scene.on("exported") else {}
    if not scene.on("handover"):
        owner = _new_pod(scene) if rng.random() < 0.8 else nobody
        first, last = (0, count) if rng.random() < 0.6 else sorted(rng.sample(range(count), 2))
        owners = [owner if first <= index < last else nobody for index in range(count)]
    else:
        cast = [_new_pod(scene) for _ in range(rng.randint(2, 3))] + [nobody]
        cuts = sorted(rng.sample(range(1, count), min(count - 1, rng.randint(1, 4))))
        owners = []
        for begin, end in zip([0, *cuts], [*cuts, count], strict=True):
            owners += [rng.choice(cast)] * (end - begin)
    if scene.on("flicker"):
        for _ in range(rng.randint(1, 4)):
            begin = rng.randrange(count)
            for index in range(begin, min(count, begin + rng.choice((1, 2, 3, 4, 5, 6, 7)))):
                owners[index] = nobody
    return owners


def _slice_owners(scene: Scene) -> list[list[Labels]]:
    """For a shared device: the labels of each of its series at each scrape."""
    rng, count = scene.rng, len(scene.times)
    per_scrape: list[list[Labels]] = [[] for _ in range(count)]
    piece = 0
    for _ in range(rng.randint(2, 4)):
        pod = _new_pod(scene)
        begin, end = sorted(rng.sample(range(count + 1), 2))
        slices = rng.choice((1, 1, 2)) if scene.on("vgpu") else 1
        for number in range(slices):
            labels = pod | ({"vgpu": str(piece + number)} if scene.on("vgpu") else {})
            for index in range(begin, end):
                per_scrape[index].append(labels)
        piece += slices
    return [found or [{}] for found in per_scrape]


def _unit_metrics(scene: Scene) -> set[str]:
    metrics = {UTIL}
    if scene.on("engine"):
        metrics = {ENGINE} if scene.rng.random() < 0.3 else {ENGINE, UTIL}
    return metrics | ({TEMPERATURE} if scene.on("temperature") or scene.on("partly_labelled") else set())


def _board_metrics(scene: Scene) -> set[str]:
    metrics: set[str] = set()
    if scene.on("energy") and scene.rng.random() < 0.8:
        metrics.add(ENERGY)
    if scene.on("power") or scene.on("frozen"):
        metrics.add(POWER)
    return metrics


def _values(scene: Scene, metrics: set[str]) -> dict[str, list[str]]:
    """One value for each scrape of each metric of a device."""
    rng, count = scene.rng, len(scene.times)
    makers: dict[str, Callable[[], str]] = {
        UTIL: lambda: str(rng.choice((0, 10, 35, 50, 80, 99, 100))),
        ENGINE: lambda: rng.choice(("0", "0.05", "0.25", "0.5", "0.9", "1", "1.01", "0.333")),
        POWER: lambda: str(rng.choice((60, 123, 350.5, 700))),
        TEMPERATURE: lambda: str(rng.randint(30, 80)),
    }
    values = {m: _held(rng, makers[m], count) for m in sorted(metrics) if m in makers}
    if scene.on("contradicting") and {ENGINE, UTIL} <= metrics:
        length = rng.choice((20, 59, 60, 61, 75)) * 60_000 // scene.step
        begin = rng.randint(0, max(0, count - length))
        for index in range(begin, min(count, begin + length)):
            values[ENGINE][index], values[UTIL][index] = "0", str(rng.choice((20, 60)))
    if ENERGY in metrics:
        values[ENERGY] = _counter(scene, count)
    return {metric: values[metric] for metric in sorted(values)}


def _held(rng: Random, make: Callable[[], str], count: int) -> list[str]:
    """Values that stay for a few scrapes."""
    values: list[str] = []
    while len(values) < count:
        values += [make()] * rng.randint(1, 12)
    return values[:count]


def _counter(scene: Scene, count: int) -> list[str]:
    rng = scene.rng
    now, readings = rng.randint(10_000, 900_000), []
    frozen: set[int] = set()
    if scene.on("frozen") and count > 30:
        begin = rng.randint(4, count - 16)
        frozen = set(range(begin, begin + rng.choice((2, 12, 14))))
    reset = rng.randrange(2, count) if scene.on("resets") and rng.random() < 0.7 else None
    for index in range(count):
        if index == reset:
            now = rng.randint(0, 5000)
        elif index not in frozen:
            now += rng.randint(1, 700) * scene.step
        readings.append(str(now))
    return readings


def _mig_samples(scene: Scene, gpu: Gpu, kept: list[int]) -> Iterator[Sample]:
    rng, count = scene.rng, len(scene.times)
    cuts = sorted(rng.sample(range(2, count - 2), rng.randint(1, 2))) if scene.on("layouts") else []
    board = _values(scene, _board_metrics(scene))
    parent = scene.on("mig_parent")
    before: tuple[tuple[str, str], ...] | None = None
    for begin, end in zip([0, *cuts], [*cuts, count], strict=True):
        choices = [layout for layout in LAYOUTS[gpu.model] if layout != before]
        layout = rng.choice(choices) if choices else before
        if parent and before and rng.random() < 0.3:
            layout = ()
        before = layout
        for index in set(kept) & set(range(begin, end)) if parent else ():
            yield Sample(ENGINE, gpu.labels, "0.77", scene.times[index])
        for instance, profile in layout or ():
            owners = _timeline(scene)
            values = _values(scene, {ENGINE}) | board
            for index in [i for i in kept if begin <= i < end]:
                labels = gpu.labels | {"GPU_I_ID": instance, "GPU_I_PROFILE": profile} | owners[index]
                for metric, series in values.items():
                    yield Sample(metric, labels, series[index], scene.times[index])
