"""Which devices there are, what part of a card each is, and how busy it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from alerts.rule import RecordingRule
from alerts.stock import Stock
from pipelines.config import Config
from pipelines.mig import weight
from pipelines.promql.expressions import by, model_is, number, quote, selector
from pipelines.promql.holders import HOLDABLE, presence
from pipelines.promql.normalise import BOARD, DEVICE, DEVICE_IDENTITY, of_devices, with_our_labels
from pipelines.promql.recorded import BUSY, IDENTITY, SLICE, SLOTS, WEIGHT

_WHOLE: Final = (*DEVICE, *DEVICE_IDENTITY)
_PROFILES: Final = (  # model glob, a model that it matches, its profiles as NVIDIA's MIG user guide lists them
    ("*A30*", "NVIDIA A30", ("1g.6gb", "2g.12gb", "4g.24gb")),
    ("*A100*40GB*", "NVIDIA A100-SXM4-40GB", ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")),
    ("*A100*80GB*", "NVIDIA A100-SXM4-80GB", ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")),
    ("*H100 NVL*", "NVIDIA H100 NVL", ("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb")),
    ("*H100*", "NVIDIA H100 80GB HBM3", ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")),
    ("*GH200*", "NVIDIA GH200 480GB", ("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb")),
    ("*H200*", "NVIDIA H200", ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")),
    ("*B200*", "NVIDIA B200", ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb")),
    ("*B300*", "NVIDIA B300", ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb")),
)
# An instance of an unlisted profile counts by its compute slices, with the memory that goes with them.
_BY_COMPUTE: Final = {"1g": "1g.10gb", "2g": "2g.20gb", "3g": "3g.40gb", "4g": "4g.40gb", "7g": "7g.80gb"}


def devices(config: Config, stock: Stock) -> Iterator[RecordingRule]:
    """Identity, weight, slots and activity of devices."""
    yield RecordingRule(IDENTITY, _identity())
    yield RecordingRule(SLICE, " or ".join(_slices(config)))
    whole = f"clamp_min(sum by {by(*BOARD)} ({SLICE}), 1)"
    yield RecordingRule(WEIGHT, f"{SLICE} / on {by(*BOARD)} group_left () {whole}")
    if stock.slots:
        yield RecordingRule(SLOTS, " or ".join(_slots(stock.slots)))
    yield RecordingRule(BUSY, _busy())


def _identity() -> str:
    """One series per device; of two host names for one device the first counts."""
    ours = f"group by {by(*_WHOLE)} ({HOLDABLE})"
    cards, instances = presence('GPU_I_ID=""'), presence('GPU_I_ID!=""')
    # In MIG mode the card's own series is no device.
    cut = f"group by {by(*BOARD)} ({with_our_labels(instances, *BOARD)})"
    whole = f"(group by {by(*_WHOLE)} ({with_our_labels(cards, *_WHOLE)}) unless on {by(*BOARD)} {cut})"
    parts = f"group by {by(*_WHOLE)} ({with_our_labels(instances, *_WHOLE)})"
    theirs = f"(({whole} or {parts}) unless on {by(*BOARD)} {HOLDABLE})"
    return f"topk by {by(*DEVICE)} (1, {ours} or {theirs})"


def _slices(config: Config) -> Iterator[str]:
    """Weights of the profiles that differ from what their compute slices say, then those."""
    common = {compute: weight("", plain, config.mig.weight) for compute, plain in _BY_COMPUTE.items()}
    for glob, model, profiles in _PROFILES:
        for profile in profiles:
            part = weight(model, profile, config.mig.weight)
            if part != common[profile.partition(".")[0]]:
                yield _sliced(profile, part, model_is(glob))
    for compute, part in common.items():
        yield _sliced(compute, part, "")


def _sliced(profile: str, part: Fraction, model: str) -> str:
    pattern = "(.*[^0-9])?" + profile.replace(".", "[.]") + "([^0-9].*)?"
    instances = selector(IDENTITY.name, f"gpu_profile=~{quote(pattern)}", model)
    return f"(0 * {instances} + {number(float(part))})"


def _slots(slots: Mapping[str, int]) -> Iterator[str]:
    for count in sorted(set(slots.values())):
        uuids = "|".join(sorted(uuid for uuid, here in slots.items() if here == count))
        cards = selector(IDENTITY.name, f"uuid=~{quote(uuids)}")
        yield f"(0 * group by {by(*BOARD)} ({cards}) + {count})"


def _busy() -> str:
    """Engine activity, else the driver's utilisation, which no MIG instance has."""
    engine, utilisation = of_devices("engine_active_ratio"), of_devices("gpu_util_ratio")
    return f"clamp_max({engine} or on {by(*DEVICE)} ({utilisation}), 1)"
