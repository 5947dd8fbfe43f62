"""NVIDIA's dashboard 12239 and rules written for dcgm-exporter, on a real Prometheus that scrapes this exporter."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.catalog import resolve
from exporter.dcgm_names import DcgmFamilies, default_counters
from exporter.endpoints import Endpoints
from exporter.fake_nvml import FakeNvml
from exporter.fleet_file import parse_fleet
from exporter.nvml import NvmlBackend
from exporter.sampler import Sampler
from exporter.server import Server
from tests.exporter.conftest import Clock
from tests.exporter.serving import Prometheus, Running

pytestmark = pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus: apt-get install prometheus")

H100 = {"model": "NVIDIA H100 80GB HBM3", "load": 0.75}
XID = {"kind": "xid", "code": 31}
RULES = {
    "hot": "DCGM_FI_DEV_GPU_TEMP > 60",
    "memory": "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0.6",
    "xid": "DCGM_FI_DEV_XID_ERRORS > 0",
    "remap": "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
    "busy": "avg by (Hostname, modelName) (DCGM_FI_DEV_GPU_UTIL) > 50",
    "idle": "avg by (UUID) (DCGM_FI_DEV_GPU_UTIL) < 5",
    "joined": "DCGM_FI_DEV_POWER_USAGE * on (UUID, GPU_I_ID, device) group_left () DCGM_FI_DEV_SM_CLOCK > 0",
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped a node with two whole cards and a split one."""
    clock = Clock()
    fleet = parse_fleet({"gpus": [H100, {**H100, "faults": [XID]}, {**H100, "mig": ["1g.10gb", "3g.40gb"]}]})
    sampler = Sampler(NvmlBackend(FakeNvml(fleet, clock), clock=clock), node="gpu-node-1", clock=clock)
    sampler.run_pass()
    clock.now += 15
    endpoints = Endpoints([DcgmFamilies(default_counters())], interval=15, clock=clock, openmetrics=False)
    endpoints.publish(sampler.run_pass())
    sampler.close()
    running = Running(Server(endpoints.answer))
    rules = {"name": "dcgm", "rules": [{"alert": name, "expr": expression} for name, expression in RULES.items()]}
    jobs = [{"job_name": "dcgm-exporter", "static_configs": [{"targets": [f"127.0.0.1:{running.port}"]}]}]
    with Prometheus(tmp_path_factory.mktemp("prometheus"), jobs, [rules]) as started:
        started.until("up == 1", series=1)
        started.until("count by (alertname) (ALERTS{alertname='busy'})", series=1)
        yield started
    running.close()


# Each panel's expression as the dashboard's revisions have it ($variables stand for all), what it shows, and how many.
SINCE_REVISION_3 = '{Hostname=~"gpu-node-1", gpu=~"0|1|2"}'
FIRST_REVISION = '{instance=~"127.+", gpu=~"0|1|2"}'
PANELS = [
    ("max(DCGM_FI_DEV_GPU_TEMP{}) by (Hostname, gpu, uuid)", {"Hostname", "gpu"}, 3, 62),
    ("avg(DCGM_FI_DEV_GPU_TEMP{})", set(), 1, 62),
    ("max(DCGM_FI_DEV_POWER_USAGE{}) by (Hostname, gpu, uuid)", {"Hostname", "gpu"}, 3, 518.875),
    ("sum(max(DCGM_FI_DEV_POWER_USAGE{}) by (gpu))", set(), 1, 3 * 518.875),
    ("max(DCGM_FI_DEV_SM_CLOCK{} * 1000000) by (Hostname, UUID, gpu)", {"Hostname", "gpu", "UUID"}, 3, 1.98e9),
    ("max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)",
     {"Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"}, 4, 0.75),
    ("max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)",
     {"Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"}, 4, 0.4125),
    ("max(DCGM_FI_DEV_FB_USED{}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)",
     {"Hostname", "gpu", "GPU_I_ID", "GPU_I_PROFILE"}, 4, 54950),
    ("DCGM_FI_DEV_GPU_TEMP{}", None, 4, 62),
    ("DCGM_FI_DEV_POWER_USAGE{}", None, 4, 518.875),
    ("DCGM_FI_DEV_SM_CLOCK{} * 1000000", None, 4, 1.98e9),
    ("DCGM_FI_DEV_GPU_UTIL{}", None, 2, 75),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{}", None, 4, 0.4125),
    ("DCGM_FI_DEV_FB_USED{}", None, 4, 54950),
]  # fmt: skip


@pytest.mark.parametrize("selector", [SINCE_REVISION_3, FIRST_REVISION], ids=["by host name", "by instance"])
@pytest.mark.parametrize(("expression", "by", "count", "value"), PANELS)
def test_every_panel_shows_what_it_should(
    prometheus: Prometheus, expression: str, by: set[str] | None, count: int, value: float, selector: str
) -> None:
    found = prometheus.query(expression.replace("{}", selector))
    assert len(found) == count
    values = [float(series["value"][1]) for series in found]
    assert max(values) == pytest.approx(value, rel=1e-3)
    if by is not None:
        shown = set().union(*(series["metric"] for series in found))
        assert shown == by


def test_its_variables_have_values(prometheus: Prometheus) -> None:
    def values(label: str, selector: str) -> Any:
        return prometheus.get(f"label/{label}/values", **{"match[]": selector})

    assert values("Hostname", "DCGM_FI_DEV_FB_FREE") == ["gpu-node-1"]
    assert values("gpu", 'DCGM_FI_DEV_FB_FREE{Hostname=~"gpu-node-1"}') == ["0", "1", "2"]
    assert len(values("instance", "DCGM_FI_DEV_GPU_TEMP")) == 1
    assert values("gpu", "DCGM_FI_DEV_GPU_TEMP") == ["0", "1", "2"]


def test_rules_written_for_dcgm_exporter_fire_on_what_they_are_for(prometheus: Prometheus) -> None:
    firing = prometheus.query('count by (alertname) (ALERTS{alertstate="firing"})')
    assert {series["metric"]["alertname"]: int(series["value"][1]) for series in firing} == {
        "hot": 4, "memory": 4, "xid": 1, "busy": 1, "joined": 4,
    }  # fmt: skip
    (rules,) = prometheus.get("rules")["groups"]
    assert [rule["health"] for rule in rules["rules"]] == ["ok"] * len(RULES)


def test_types_are_those_of_dcgm_exporter(prometheus: Prometheus) -> None:
    told = prometheus.get("metadata")
    for series in default_counters().series:
        resolved = resolve(series.name)
        assert resolved is not None
        if series.name in told:
            assert [entry["type"] for entry in told[series.name]] == [series.kind], series.name
    assert told["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"][0]["type"] == "counter"
    assert len([name for name in told if name.startswith("DCGM_")]) > 20
