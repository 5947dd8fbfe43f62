"""Random small fleets for property tests: devices, owners, holes, schedulers' records, outages, rates, reservations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from hypothesis import strategies as st

from tests.pipelines.scene import A30, A100, H100, Allocation, Job, Listed, Scene, Series, at, seen

LENGTH: Final = 150  # minutes of a scene
OWNERS: Final = ("", "", "astro/a", "astro/b", "bio/c", "bio-2/d", "stray/x")
LAYOUTS: Final = {
    H100: ((("1", "3g.40gb"), ("2", "3g.40gb")), (("2", "4g.40gb"), ("7", "1g.10gb")), (("0", "7g.80gb"),)),
    A30: ((("3", "1g.6gb"), ("1", "2g.12gb")), (("0", "4g.24gb"),)),
}
PRICES: Final = st.sampled_from(("0.00", "1.337", "2.005", "3.00", "100.0000000001"))
READINGS: Final[st.SearchStrategy[float | str]] = st.one_of(
    st.integers(0, 100), st.sampled_from((101, 4294967295, "NaN"))
)


@st.composite
def minutes(draw: st.DrawFn, length: int = LENGTH) -> tuple[int, int]:
    """Two ordered minutes, not equal."""
    start = draw(st.integers(0, length - 1))
    return start, draw(st.integers(start + 1, length))


@st.composite
def cut(draw: st.DrawFn, pieces: int) -> list[tuple[int, int]]:
    """A whole scene in a few stretches, one after the other."""
    inner = draw(st.sets(st.integers(1, LENGTH - 1), max_size=pieces - 1))
    return list(pairwise([0, *sorted(inner), LENGTH]))


@st.composite
def whole_cards(draw: st.DrawFn, device: str) -> list[Series]:
    """A card that changes hands, with holes; sometimes two pods share it."""
    node, model = draw(st.sampled_from(("rack1", "rack2"))), draw(st.sampled_from((H100, A100)))
    every, power = draw(st.sampled_from((1, 2, 5))), draw(st.sampled_from((300, None)))
    series = []
    for stretch in draw(cut(4)):
        if draw(st.integers(0, 4)) == 0:
            continue  # a hole
        owner = draw(st.sampled_from(OWNERS))
        sharers = {owner, draw(st.sampled_from(OWNERS[2:]))} if owner and draw(st.booleans()) else {owner}
        uid = draw(st.sampled_from(("", "u1")))
        util = draw(st.lists(READINGS, min_size=1, max_size=5))
        for sharer in sorted(sharers):
            name = f"{uid}-{sharer}" if uid and sharer else ""
            series.append(
                seen(device, stretch, sharer, node=node, model=model, every=every, uid=name, util=util, power=power)
            )
    return series


@st.composite
def cut_cards(draw: st.DrawFn, device: str) -> list[Series]:
    """A card in MIG mode whose layout changes."""
    model = draw(st.sampled_from(sorted(LAYOUTS)))
    series = []
    for stretch in draw(cut(2)):
        for instance, profile in draw(st.sampled_from(LAYOUTS[model])):
            owner = draw(st.sampled_from(OWNERS))
            engine = draw(st.sampled_from((0, 0.25, 1, 1.01, 7)))
            series.append(
                seen(
                    device, stretch, owner,
                    node="rack3", model=model, every=5, instance=instance, profile=profile, engine=engine, power=200,
                )
            )  # fmt: skip
    return series


@st.composite
def fleets(draw: st.DrawFn) -> list[Series]:
    """One to four cards, whole or cut; at least one is seen."""
    series: list[Series] = []
    for number in range(draw(st.integers(1, 4))):
        made = draw(st.one_of(whole_cards(f"GPU-{number}"), whole_cards(f"GPU-{number}"), cut_cards(f"GPU-{number}")))
        series += made
    return series or [seen("GPU-9", (0, LENGTH), "astro/a", every=5)]


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    rows = []
    for number in range(draw(st.integers(0, 3))):
        gres = draw(st.sampled_from(("gres/gpu=1", "gres/gpu=2", "gres/gpu:a100=1,gres/gpu=1")))
        nodes = draw(st.sampled_from(("rack1", "rack2", "rack9", "rack[1-2]")))
        account = draw(st.sampled_from(("astro", "bio", "other")))
        rows.append(Job(str(100 + number), draw(minutes()), gres, account, nodes))
    return rows


@st.composite
def allocations(draw: st.DrawFn) -> list[Allocation]:
    rows = []
    for number in range(draw(st.integers(0, 3))):
        class_ = draw(st.sampled_from(("", "", "on_demand", "overflow", "spot", "down")))
        device = draw(st.sampled_from(("", "", "GPU-0", "GPU-1")))
        gpus = "1" if device else draw(st.sampled_from(("1", "2")))
        tenant = draw(st.sampled_from(("astro", "bio", "")))
        rows.append(Allocation(draw(minutes()), gpus, device, H100, tenant, f"given-{number}", class_))
    return rows


@st.composite
def inventories(draw: st.DrawFn) -> list[Listed]:
    style = draw(st.sampled_from(("none", "none", "named", "nameless")))
    if style == "none":
        return []
    owner = draw(st.sampled_from(("", "astro")))
    if style == "named":
        slots = draw(st.sampled_from(("", "2", "4")))
        return [Listed(device=f"GPU-{n}", slots=slots, owner=owner, minutes=(0, LENGTH)) for n in (0, 1, 8)]
    return [Listed(node, gpus=str(draw(st.integers(1, 3))), owner=owner) for node in ("rack1", "rack2")]


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Rates that change, reservations, quotas, policies; every reservation has a rate of its own or of the card."""
    edge = at(draw(st.integers(1, LENGTH - 1)))
    names = ("on_demand", "reserved", "overflow", "spot")
    rates = [{"model": "*", **span, **{n: draw(PRICES) for n in names}} for span in ({"to": edge}, {"from": edge})]
    if draw(st.booleans()):
        rates.insert(0, {"model": "*a100*", "on_demand": draw(PRICES)})
    reservations = []
    for number in range(draw(st.integers(0, 2))):
        start, end = draw(minutes())
        reservations.append(
            {
                "id": f"r{number}",
                "tenant": draw(st.sampled_from(("astro", "bio"))),
                "model": draw(st.sampled_from(("*", "*h100*"))),
                "gpus": draw(st.integers(1, 3)),
                "from": at(start - 10),
                "to": at(end),
                "rate": draw(PRICES),
            }
        )
    tenants: list[dict[str, Any]] = [
        {"id": "astro", "match": [{"namespace": "astro*"}, {"slurm_account": "astro"}]},
        {"id": "bio", "match": [{"namespace": "bio*", "to": edge}, {"slurm_account": "bio"}]},
        {"id": "chem", "match": [{"namespace": "bio*", "from": edge}]},
    ]
    for tenant in tenants:
        if draw(st.booleans()):
            tenant["quota"] = {"gpus": draw(st.integers(0, 2))}
    content: dict[str, Any] = {
        "currency": draw(st.sampled_from(("USD", "JPY", "KWD"))),
        "timezone": draw(st.sampled_from(("UTC", "Asia/Kolkata"))),
        "tenants": tenants,
        "rates": rates,
        "reservations": reservations,
        "spot": [{"namespace": "bio-2"}] if draw(st.booleans()) else [],
        "idle": {"policy": draw(st.sampled_from(("platform", "proportional", "even", "owner")))},
        "mig": {"weight": draw(st.sampled_from(("max", "compute", "memory")))},
        "energy": {"price_per_kwh": "0.12", "pue": "1.3", "charge": draw(st.booleans())},
        "sla": {"credit_downtime": draw(st.booleans())},
        "overheads": [
            {"name": split, "monthly": draw(st.sampled_from(("1000.00", "7777.77"))), "split": split}
            for split in ("even", "proportional")
            if draw(st.booleans())
        ],
    }
    if draw(st.booleans()):
        start, end = draw(minutes())
        content["window"] = {"from": at(start), "to": at(end)}
    return content


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Everything at once."""
    return Scene(draw(fleets()), draw(jobs()), draw(allocations()), draw(inventories()), draw(configurations()))


@st.composite
def labelled_scenes(draw: st.DrawFn) -> Scene:
    """What labels alone show: no scheduler, no inventory."""
    return Scene(draw(fleets()), config=draw(configurations()))


def with_values(scene: Scene, values: dict[str, Any]) -> Scene:
    """The same scene with other readings of the metrics that it has."""
    other = [replace(s, values={k: values.get(k, v) for k, v in s.values.items()}) for s in scene.series]
    return replace(scene, series=other)


def split(rows: Sequence[Any], first: set[int]) -> Iterator[list[Any]]:
    """The rows in two parts, each in its order."""
    yield [row for number, row in enumerate(rows) if number in first]
    yield [row for number, row in enumerate(rows) if number not in first]
