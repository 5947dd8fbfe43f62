from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from exporter.catalog import BY_KEY, CATALOG, Metric, resolve

SHARED = Path(__file__).parents[3] / "shared" / "data"
UNITS = ("celsius", "watts", "joules", "bytes", "hertz", "ratio", "seconds", "bytes_per_second")
ABBREVIATIONS = {"ms", "us", "ns", "sec", "kb", "mb", "gb", "mib", "gib", "mhz", "hz", "mw", "kw", "pct", "percent"}

PIPELINE_KEYS = [
    "engine_active_ratio",
    "gpu_util_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_total_bytes",
    "power_watts",
    "energy_joules_total",
    "temperature_celsius",
    "memory_temperature_celsius",
    "pcie_transmit_bytes_total",
    "pcie_receive_bytes_total",
    "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "sm_clock_hertz",
    "throttle_reasons_bitmask",
    "xid_last_code",
]


def test_every_name_belongs_to_one_metric() -> None:
    names = [metric.name for metric in CATALOG]
    names += [name.name for metric in CATALOG for name in (*metric.dcgm, *metric.smi)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_dcgm_field_belongs_to_one_metric() -> None:
    owners = {(name.field_id, metric.key) for metric in CATALOG for name in metric.dcgm}
    assert len(owners) == len({field for field, _ in owners})


@pytest.mark.parametrize("key", PIPELINE_KEYS)
def test_keys_that_the_pipeline_reads_exist(key: str) -> None:
    assert BY_KEY[key].name == f"gpuledger_{key}"


@pytest.mark.parametrize("metric", CATALOG, ids=lambda metric: metric.key)
def test_names_follow_prometheus_conventions(metric: Metric) -> None:
    stem = metric.key.removesuffix("_total") if metric.kind == "counter" else metric.key
    assert (metric.kind == "counter") == metric.key.endswith("_total")
    assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", metric.key)
    assert not ABBREVIATIONS & set(metric.key.split("_"))
    assert metric.unit == "" or (metric.unit in UNITS and stem.endswith("_" + metric.unit))
    assert metric.unit or not stem.endswith(UNITS)
    assert metric.help.endswith(".")
    assert "\n" not in metric.help
    assert metric.minimum <= 0 < metric.maximum


def test_ranges_refuse_what_was_never_measured() -> None:
    assert not BY_KEY["engine_active_ratio"].accepts(1.03)
    assert BY_KEY["engine_active_ratio"].accepts(1.02)
    assert not BY_KEY["gpu_util_ratio"].accepts(808334905 * 0.01)
    assert not BY_KEY["temperature_celsius"].accepts(201)
    assert not BY_KEY["power_watts"].accepts(3000.1)
    assert not BY_KEY["energy_joules_total"].accepts(9223372036854775794 * 0.001)
    assert not any(metric.accepts(float("nan")) for metric in CATALOG)


@pytest.mark.parametrize(
    ("name", "value", "key", "expected", "origin"),
    [
        ("DCGM_FI_DEV_POWER_USAGE", 409.692, "power_watts", 409.692, "dcgm"),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", 409.692, "power_watts", 409.692, "dcgm"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 3600000, "energy_joules_total", 3600, "dcgm"),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 60, "gpu_util_ratio", 0.6, "dcgm"),
        ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.6, "engine_active_ratio", 0.6, "dcgm"),
        ("DCGM_FI_DEV_FB_USED", 2, "memory_used_bytes", 2097152, "dcgm"),
        ("DCGM_FI_DEV_SM_CLOCK", 1980, "sm_clock_hertz", 1.98e9, "dcgm"),
        ("DCGM_FI_DEV_POWER_VIOLATION", 5e9, "throttle_power_seconds_total", 5, "dcgm"),
        ("nvidia_smi_utilization_gpu_ratio", 0.6, "gpu_util_ratio", 0.6, "smi"),
        ("nvidia_smi_power_draw_watts", 70, "power_watts", 70, "smi"),
        ("gpuledger_power_watts", 70, "power_watts", 70, "gpuledger"),
    ],
)
def test_foreign_values_come_into_base_units(name: str, value: float, key: str, expected: float, origin: str) -> None:
    resolved = resolve(name)
    assert resolved is not None
    metric, scale, whose = resolved
    assert (metric.key, whose) == (key, origin)
    assert value * scale == pytest.approx(expected)


def test_unknown_names_resolve_to_nothing() -> None:
    assert resolve("DCGM_FI_DEV_BRAND") is None
    assert resolve("node_cpu_seconds_total") is None


needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the public captures in ../shared/data")


@needs_shared
def test_every_series_of_the_dcgm_exporter_captures_resolves() -> None:
    files = [path for path in (SHARED / "dcgm_exporter").rglob("*") if path.suffix in {".prom", ".ini"}]
    names = {name for path in files for name in re.findall(r"^(DCGM_FI_[A-Z0-9_]+)\{", path.read_text(), re.MULTILINE)}
    assert len(names) > 20
    assert [name for name in sorted(names) if resolve(name) is None] == []


@needs_shared
def test_every_metric_of_dcgm_exporters_counters_file_resolves() -> None:
    rows = re.findall(
        r"^#? ?(DCGM_FI_\w+) *, *(gauge|counter),",
        (SHARED / "dcgm_exporter/default-counters.csv").read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 30
    assert [name for name, _ in rows if resolve(name) is None] == []


@needs_shared
def test_values_of_nvidia_gpu_exporter_are_read_in_base_units() -> None:
    path = next((SHARED / "nvidia_gpu_exporter/metrics").glob("*h100-80gb*load.metrics"))
    seen = {}
    for line in path.read_text().splitlines():
        match = re.match(r"(nvidia_smi_\w+)\{[^}]*\} (\S+)$", line)
        if match and (resolved := resolve(match[1])):
            seen[resolved[0].key] = resolved[0].accepts(float(match[2]) * resolved[1])
    assert len(seen) > 30
    assert [key for key, valid in seen.items() if not valid] == []


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool: apt-get install prometheus")
def test_promtool_finds_nothing_to_mend() -> None:
    text = "".join(f"# HELP {m.name} {m.help}\n# TYPE {m.name} {m.kind}\n{m.name} 1\n" for m in CATALOG)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
