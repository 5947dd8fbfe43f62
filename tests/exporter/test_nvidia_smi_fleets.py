"""Every recorded ``nvidia-smi -q -x`` report, replayed as a fleet, is exported without an error."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter.dcgm_names import DcgmFamilies, default_counters
from exporter.exposition import Renderer
from exporter.fake_nvml import FakeNvml
from exporter.families import FamilyBuilder
from exporter.fleet_file import parse_fleet
from exporter.nvml import NvmlBackend
from tests.exporter.conftest import SHARED, Clock, MakeSampler
from tests.exporter.smi_fleet import fleet_from_report

REPORTS = sorted((SHARED / "nvidia_smi/xml").glob("*.xml"))
pytestmark = pytest.mark.skipif(not REPORTS, reason="needs the public captures in ../shared/data")


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_becomes_series_with_its_numbers(path: Path, clock: Clock, make_sampler: MakeSampler) -> None:
    root = ET.parse(path).getroot()
    sampler = make_sampler(NvmlBackend(FakeNvml(parse_fleet(fleet_from_report(path)), clock), clock=clock))
    sampler.run_pass()
    clock.now += 15
    snapshot = sampler.run_pass()
    gpus = root.findall("gpu")
    assert [card.state for card in snapshot.cards] == ["up"] * len(gpus)
    builders = (FamilyBuilder(), DcgmFamilies(default_counters()))
    page = Renderer().render(family for builder in builders for family in builder.build(snapshot))
    samples = {
        (sample.name, sample.labels["uuid"], sample.labels.get("gpu_instance")): sample.value
        for family in text_string_to_metric_families(page.body(openmetrics=False, gzipped=False).decode())
        for sample in family.samples
        if "uuid" in sample.labels
    }
    for gpu, card in zip(gpus, snapshot.cards, strict=True):
        uuid = card.device.uuid
        assert card.device.model == (gpu.findtext("product_name") or "unknown")
        for element, name, factor in (
            ("fb_memory_usage/used", "memory_used_bytes", 1048576),
            ("temperature/gpu_temp", "temperature_celsius", 1),
            ("clocks/sm_clock", "sm_clock_hertz", 1e6),
        ):
            text = gpu.findtext(element) or ""
            exposed = samples.get((f"gpuledger_{name}", uuid, None))
            number = text.split(" ")[0]
            assert exposed == (float(number) * factor if number.isdigit() else None), (element, text)
        instances = gpu.findall("mig_devices/mig_device")
        assert len({mig.findtext("gpu_instance_id") for mig in instances}) == len(card.device.instances)


def test_there_are_as_many_reports_as_were_recorded() -> None:
    assert len(REPORTS) == 23


def test_power_is_found_in_old_and_new_reports() -> None:
    watts = {path.stem: gpu["values"].get("power_watts") for path in REPORTS for gpu in fleet_from_report(path)["gpus"]}
    for stem in ("telegraf__rtx-3080-v12", "telegraf__rtx-3080-v13", "k8s-test-infra__qx-h100", "telegraf__tesla-t4"):
        assert watts[stem] is not None, stem
