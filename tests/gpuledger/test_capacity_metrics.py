"""What the daemon exposes of capacity is what `gpuledger availability` says."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpuledger.capacity_metrics import CapacityMetrics
from gpuledger.cli import main
from pipelines.availability import published_availability
from pipelines.config import load
from tests.gpuledger.test_availability import site

DRAINED = """\
NodeName=n2 Arch=x86_64
   Gres=gpu:h100:2
   State=IDLE+DRAIN
   CfgTRES=gres/gpu=2
   LastBusyTime=2026-10-05T10:30:00 SlurmdStartTime=2026-10-01T00:00:00
   Reason=XID 79 [root@2026-10-05T10:30:00]
"""


def exposed(registry: CollectorRegistry) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by name without its prefix, and by the values of their labels in the order of their names."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            of_name = found.setdefault(sample.name.removeprefix("gpuledger_capacity_"), {})
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            assert labels not in of_name, "two values of one series"
            of_name[labels] = sample.value
    return found


def test_models_trouble_and_reservations(tmp_path: Path) -> None:
    command = site(tmp_path, r1=3, r2=2)
    with (tmp_path / "state.txt").open("a") as state:
        state.write(DRAINED)
    assert main(["run", "--once", *command[1:]]) == 0
    registry = CollectorRegistry()
    capacity = CapacityMetrics(registry)
    capacity.known = published_availability(load(tmp_path / "gpuledger.yaml"))
    found = exposed(registry)
    told = capacity.known
    assert told is not None
    assert found["at_timestamp_seconds"] == {(): told.at.timestamp()}
    assert {state: found["cards"]["h100", state] for state in ("held", "free", "down")} == {
        "held": 3, "free": 1, "down": 2,
    }  # fmt: skip
    assert found["whole_free_cards"] == found["largest_block_cards"] == {("h100",): 1}
    assert found["troubled_cards"] == {("hpc", "n2", "repair"): 2}
    first, second = (("*", name, "configuration", "vision") for name in ("r1", "r2"))
    assert found["reservation_gpus"] == {first: 3, second: 2}
    assert found["reservation_fits"] == {first: 1, second: 0}  # of four cards that are not out of use
    (day,) = {
        found["reservation_end_timestamp_seconds"][labels] - start
        for labels, start in found["reservation_start_timestamp_seconds"].items()
    }
    assert day == 86400


def test_reservations_of_one_name_are_one_series(tmp_path: Path) -> None:
    site(tmp_path, r1=3)
    known = published_availability(load(tmp_path / "gpuledger.yaml"))
    assert known is not None
    (promise,) = known.reservations
    registry = CollectorRegistry()
    capacity = CapacityMetrics(registry)
    other = promise.model_copy(update={"gpus": 2, "fits": False})
    capacity.known = known.model_copy(update={"reservations": [promise, other]})
    found = exposed(registry)
    assert list(found["reservation_gpus"].values()) == [5]
    assert list(found["reservation_fits"].values()) == [0]


def test_before_the_first_pass_nothing_is_said(tmp_path: Path) -> None:
    command = site(tmp_path)
    (tmp_path / "gpuledger.yaml").write_text((tmp_path / "gpuledger.yaml").read_text() + "ledger: elsewhere\n")
    assert command
    assert published_availability(load(tmp_path / "gpuledger.yaml")) is None
    registry = CollectorRegistry()
    CapacityMetrics(registry)
    assert exposed(registry) == {}
