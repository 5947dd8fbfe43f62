from __future__ import annotations

import gzip
import math
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from exporter.errors import SourceError
from pipelines.sources.exposition import read_exposition
from pipelines.tables import SAMPLE_LABELS, Batch

T = 1791201600000  # 2026-10-05T12:00:00Z
AT = datetime(2026, 10, 5, 12, tzinfo=UTC)
UTIL = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n1"}'
ENERGY = 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-a"}'


def read(tmp_path: Path, text: str | bytes, name: str = "m.prom", at: datetime | None = None) -> Batch:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_exposition(path, cluster="c", at=at)


def counts(batch: Batch) -> dict[str, int]:
    codes = {finding.code for finding in batch.findings}
    return {code: sum(f.count for f in batch.findings if f.code == code) for code in codes}


def test_one_row_per_time_and_label_set_with_a_column_per_metric(tmp_path: Path) -> None:
    power = UTIL.replace("GPU_UTIL", "POWER_USAGE")
    batch = read(tmp_path, f"{UTIL} 40 {T}\n{power} 300.5 {T}\n{UTIL} 60 {T + 60000}\n")
    assert batch.samples.columns == [*SAMPLE_LABELS, "gpu_util_ratio", "power_watts"]
    assert batch.samples["gpu_util_ratio"].to_list() == [0.4, 0.6]
    assert batch.samples["power_watts"].to_list() == [300.5, None]
    assert batch.samples["time"].to_list() == [AT, datetime(2026, 10, 5, 12, 1, tzinfo=UTC)]
    assert {name: batch.samples.schema[name] for name in SAMPLE_LABELS} == SAMPLE_LABELS
    assert batch.findings == []


@pytest.mark.parametrize(
    ("series", "column", "exposed", "base"),
    [
        ('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"}', "gpu_util_ratio", "80", 0.8),
        ('DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="GPU-a"}', "gpu_util_ratio", "80", 0.8),
        ('DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-a"}', "engine_active_ratio", "0.5", 0.5),
        ('DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{UUID="GPU-a"}', "energy_joules_total", "3600000", 3600.0),
        ('DCGM_FI_DEV_FB_USED{UUID="GPU-a"}', "memory_used_bytes", "2", 2 * 1024.0**2),
        ('nvidia_smi_utilization_gpu_ratio{uuid="a"}', "gpu_util_ratio", "0.85", 0.85),
        ('gpuledger_power_watts{uuid="GPU-a"}', "power_watts", "312", 312.0),
        ('{"DCGM_FI_DEV_GPU_UTIL",UUID="GPU-a"}', "gpu_util_ratio", "80", 0.8),
        ('{__name__="DCGM_FI_DEV_GPU_UTIL",UUID="GPU-a"}', "gpu_util_ratio", "80", 0.8),
    ],
)
def test_names_of_each_exporter_in_base_units(
    tmp_path: Path, series: str, column: str, exposed: str, base: float
) -> None:
    assert read(tmp_path, f"{series} {exposed} {T}\n").samples[column].to_list() == [pytest.approx(base)]


@pytest.mark.parametrize(
    ("name", "exposed", "stored"),
    [
        ("DCGM_FI_DEV_MEMORY_TEMP", "9223372036854775794", math.nan),
        ("DCGM_FI_DEV_MEMORY_TEMP", "2147483632", math.nan),
        ("DCGM_FI_DEV_MEMORY_TEMP", "2147483647", math.nan),
        ("DCGM_FI_DEV_MEMORY_TEMP", "140737488355328", math.nan),
        ("DCGM_FI_DEV_MEMORY_TEMP", "140737488355331.0", math.nan),
        ("DCGM_FI_DEV_GPU_UTIL", "2619", 26.19),
        ("DCGM_FI_DEV_MEMORY_TEMP", "2147483631", 2147483631.0),
        ("DCGM_FI_DEV_MEMORY_TEMP", "2147483640.5", 2147483640.5),
        ("DCGM_FI_DEV_MEMORY_TEMP", "NaN", math.nan),
        ("DCGM_FI_DEV_MEMORY_TEMP", "+Inf", math.inf),
        ("DCGM_FI_DEV_MEMORY_TEMP", "-Inf", -math.inf),
        ("DCGM_FI_DEV_MEMORY_TEMP", "-5", -5.0),
        ("gpuledger_memory_used_bytes", "2147483632", 2147483632.0),
        ("gpuledger_memory_used_bytes", "140737488355328", 140737488355328.0),
        ("gpuledger_memory_used_bytes", "9.3e18", math.nan),
    ],
)
def test_blank_codes_become_nan_and_everything_else_stays_as_measured(
    tmp_path: Path, name: str, exposed: str, stored: float
) -> None:
    samples = read(tmp_path, f'{name}{{UUID="GPU-a"}} {exposed} {T}\n').samples
    (value,) = samples[samples.columns[-1]].to_list()
    assert value == pytest.approx(stored, nan_ok=True)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("4 Active Workloads", "metric name"),
        ("Active 1g.5gb", "number"),
        ("-" * 80, "metric name"),
        (f"{UTIL} MIG-GPU-x/3 {T}", "number"),
        ('F{gpu="0"} MIG-GPU-x/3', "number"),
        (f"{UTIL} [N/A] {T}", "number"),
        (f"{UTIL} 1_000 {T}", "number"),
        (f"{UTIL} 40 12:00", "timestamp"),
        (f"{UTIL} 40 {T}.5", "timestamp"),
        (f"{UTIL} 40 1791_201600000", "timestamp"),
        (f"{UTIL} 40 -1", "timestamp"),
        (f"{UTIL} 40 99999999999999999999", "timestamp"),
        (f"{UTIL} 40 {T} 7", "series value"),
        (f"{UTIL}", "series value"),
        ('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a" 40 1', "malformed labels"),
        ('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"', "malformed labels"),
        ("DCGM_FI_DEV_GPU_UTIL{UUID=GPU-a} 40 1", "malformed labels"),
        ('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",UUID="GPU-b"} 40 1', "twice"),
        ('{UUID="GPU-a"} 40 1', "metric name"),
        (f"DCGM_FI_DEV_GPU_UTIL 40 {T}", "no device"),
        (f'DCGM_FI_DEV_GPU_UTIL{{gpu="0"}} 40 {T}', "no device"),
    ],
)
def test_a_bad_line_is_counted_and_the_rest_kept(tmp_path: Path, line: str, why: str) -> None:
    batch = read(tmp_path, f"{UTIL} 40 {T}\n{line}\n{UTIL} 60 {T + 60000}\n")
    assert batch.samples["gpu_util_ratio"].to_list() == [0.4, 0.6]
    assert counts(batch) == {"bad_line": 1}
    assert why in batch.findings[0].detail
    assert "line 2" in batch.findings[0].detail


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "# HELP DCGM_FI_DEV_GPU_UTIL {a brace} and text",
        "#",
        "go_goroutines 12",
        f'go_gc_duration_seconds{{quantile="0.5"}} 0.1 {T}',
        'TEST_METRIC{gpu="0",test-uuid="x"} 42',
        'DCGM_FI_DEV_GPU_TEMP{nvswitch="0",Hostname="n1"} 42',
        'DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{nvlink="0",gpu="0",UUID="GPU-a",Hostname="n1"} 42',
        'nvidia_smi_gpu_info{uuid="a",name="NVIDIA H100"} 1',
    ],
)
def test_lines_that_say_nothing_about_a_gpu_are_ignored(tmp_path: Path, line: str) -> None:
    batch = read(tmp_path, f"{line}\n{UTIL} 40 {T}\n{line}\n")
    assert batch.samples["gpu_util_ratio"].to_list() == [0.4]
    assert batch.findings == []


@pytest.mark.parametrize(
    "text",
    [
        f"{UTIL} 40 {T}",
        f"{UTIL} 40 {T}\r\n",
        f"\ufeff{UTIL} 40 {T}\n",
        f"  {UTIL}\t 40   {T}  \n",
        f'DCGM_FI_DEV_GPU_UTIL {{ gpu = "0" , UUID="GPU-a", Hostname="n1", }} 4e1 {T}\n',
    ],
)
def test_layout_of_a_line_does_not_matter(tmp_path: Path, text: str) -> None:
    batch = read(tmp_path, text)
    assert batch.samples.select("device", "node", "gpu_util_ratio").rows() == [("GPU-a", "n1", 0.4)]
    assert batch.findings == []


def test_a_file_may_be_gzip_whatever_its_name(tmp_path: Path) -> None:
    for name in ("m.prom.gz", "m.prom"):
        assert read(tmp_path, gzip.compress(f"{UTIL} 40 {T}\n".encode()), name).samples.height == 1
    assert read(tmp_path, f"{UTIL} 40 {T}\n", "plain.prom.gz").samples.height == 1


def test_openmetrics_has_seconds_exemplars_and_an_end(tmp_path: Path) -> None:
    text = f'{UTIL} 40 1791201600.25 # {{trace_id="x}}y"}} 0.5\n{UTIL} 60 1791201660\n# EOF\n'
    for name in ("m.om", "m.om.gz"):
        batch = read(tmp_path, text, name)
        assert [time.timestamp() for time in batch.samples["time"]] == [1791201600.25, 1791201660.0]
        assert batch.findings == []


def test_openmetrics_without_its_end_is_said_to_be_cut_short(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{UTIL} 40 1791201600\n", "m.om")
    assert batch.samples.height == 1
    assert counts(batch) == {"bad_line": 1}
    assert "# EOF" in batch.findings[0].detail


def test_openmetrics_lines_after_the_end_are_bad(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{UTIL} 40 1791201600\n# EOF\n{UTIL} 60 1791201660\n", "m.om")
    assert batch.samples.height == 1
    assert counts(batch) == {"bad_line": 1}


def test_lines_without_a_timestamp_take_the_time_given_for_them(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{UTIL} 40\n{UTIL} 60 {T + 60000}\n", at=AT)
    assert batch.samples["time"].to_list() == [AT, datetime(2026, 10, 5, 12, 1, tzinfo=UTC)]


def test_a_file_without_any_timestamp_needs_a_time(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"m\.prom: none of its 1 samples has a timestamp; .*`at: "):
        read(tmp_path, f"{UTIL} 40\n")


def test_single_lines_without_a_timestamp_are_bad_where_nothing_gives_their_time(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{UTIL} 40\n{UTIL} 60 {T}\n")
    assert batch.samples["gpu_util_ratio"].to_list() == [0.6]
    assert counts(batch) == {"bad_line": 1}


@pytest.mark.parametrize(
    ("values", "kept", "surplus"),
    [
        (("10", "20"), 10.0, 1),
        (("20", "10"), 10.0, 1),
        (("10", "10"), 10.0, 1),
        (("30", "10", "20"), 10.0, 2),
        (("NaN", "20"), 20.0, 1),
        (("-Inf", "20"), 20.0, 1),
        (("20", "9223372036854775794"), 20.0, 1),
    ],
)
def test_of_two_values_at_one_time_the_smaller_counts(
    tmp_path: Path, values: tuple[str, ...], kept: float, surplus: int
) -> None:
    lines = "".join(f'DCGM_FI_DEV_GPU_TEMP{{UUID="GPU-a"}} {value} {T}\n' for value in values)
    batch = read(tmp_path, lines)
    assert batch.samples["temperature_celsius"].to_list() == [kept]
    assert counts(batch) == {"duplicate_sample": surplus}


def test_two_names_of_one_metric_are_no_duplicates_and_the_better_name_counts(tmp_path: Path) -> None:
    text = (
        f'nvidia_smi_power_draw_average_watts{{uuid="a"}} 100 {T}\nnvidia_smi_power_draw_watts{{uuid="a"}} 300 {T}\n'
        f'nvidia_smi_power_draw_average_watts{{uuid="a"}} 110 {T + 1}\n'
        f'nvidia_smi_power_draw_watts{{uuid="a"}} NaN {T + 1}\n'
    )
    batch = read(tmp_path, text)
    assert batch.samples["power_watts"].to_list() == [300.0, 110.0]
    assert batch.findings == []


def test_replicas_and_slices_are_series_of_their_own(tmp_path: Path) -> None:
    text = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-a",{label}="{value}"}} 40 {T}\n'
        for label, value in [("replica", "a"), ("replica", "b"), ("vgpu", "0"), ("vgpu", "1"), ("job", "x")]
    )
    batch = read(tmp_path, text)
    assert batch.samples.height == 5
    assert batch.findings == []


def test_time_going_backwards_is_put_in_order(tmp_path: Path) -> None:
    batch = read(tmp_path, "".join(f"{ENERGY} {value} {T - value * 1000}\n" for value in range(5)))
    assert batch.samples["time"].is_sorted()
    assert batch.samples["energy_joules_total"].to_list() == pytest.approx([0.004, 0.003, 0.002, 0.001, 0])
    assert batch.findings == []


def test_an_empty_file_yields_nothing(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# only a comment\n"):
        batch = read(tmp_path, text)
        assert batch.samples.schema == SAMPLE_LABELS
        assert batch.samples.height == 0
        assert batch.findings == []


def test_a_binary_file_is_bad_lines(tmp_path: Path) -> None:
    batch = read(tmp_path, bytes(range(256)) * 40)
    assert batch.samples.height == 0
    assert counts(batch).keys() == {"bad_line"}


def test_a_line_that_is_not_utf8_is_counted_each_time(tmp_path: Path) -> None:
    bad = b'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",pod="caf\xe9"} 40 1791201600000\n'
    batch = read(tmp_path, bad + bad + f"{UTIL} 60 {T}\n".encode())
    assert batch.samples["gpu_util_ratio"].to_list() == [0.6]
    assert counts(batch) == {"bad_line": 2}
    assert "UTF-8" in batch.findings[0].detail


def test_a_huge_label_is_one_bad_line_and_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "m.prom"
    with path.open("wb") as file:
        file.write(f'{UTIL} 40 {T}\nDCGM_FI_DEV_GPU_UTIL{{UUID="'.encode())
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(f'"}} 50 {T}\n{UTIL} 60 {T + 60000}\n'.encode())
    tracemalloc.start()
    batch = read_exposition(path, cluster="c")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert batch.samples["gpu_util_ratio"].to_list() == [0.4, 0.6]
    assert counts(batch) == {"bad_line": 1}
    assert "line 2" in batch.findings[0].detail
    assert peak < 16 << 20


def test_lines_across_chunks_are_read_whole(tmp_path: Path) -> None:
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{UUID="GPU-a",pod="{"p" * (i % 97)}"}} {i % 100} {T + i}\n' for i in range(30000)]
    batch = read(tmp_path, "".join(lines))
    assert batch.samples.height == 30000
    assert batch.samples.sort("time")["gpu_util_ratio"].to_list() == [i % 100 * 0.01 for i in range(30000)]
    assert batch.findings == []


def test_models_come_from_the_info_series_wherever_it_stands(tmp_path: Path) -> None:
    uuid = "1c67088e-9ecb-4564-bb97-6151ecc2ef64"
    batch = read(
        tmp_path,
        f'nvidia_smi_memory_used_bytes{{uuid="{uuid}"}} 7\n'
        f'nvidia_smi_mig_memory_used_bytes{{gpu_instance_id="2",uuid="{uuid}"}} 5\n'
        f'nvidia_smi_gpu_info{{index="3",name="NVIDIA H200",uuid="{uuid}"}} 1\n'
        f'nvidia_smi_mig_info{{compute_instance_id="0",gpu_instance_id="2",profile="1c.3g.71gb",uuid="{uuid}"}} 1\n',
        at=AT,
    )
    found = batch.samples.select("device", "instance", "profile", "model", "index", "memory_used_bytes")
    assert found.rows() == [
        (f"GPU-{uuid}", None, None, "NVIDIA H200", "3", 7.0),
        (f"GPU-{uuid}", "2", "3g.71gb", "NVIDIA H200", "3", 5.0),
    ]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda _: None, "no such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(gzip.compress(b"x" * 10000)[:-20]), "broken gzip"),
    ],
)
def test_a_file_that_can_not_be_read_is_one_clear_line(tmp_path: Path, prepare: object, message: str) -> None:
    path = tmp_path / "m.prom.gz"
    prepare(path)  # type: ignore[operator]
    with pytest.raises(SourceError, match=message) as caught:
        read_exposition(path, cluster="c")
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_that_may_not_be_read_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError, match="may not be read by this user"):
        read_exposition(tmp_path / "m.prom", cluster="c")


def test_the_cluster_is_that_of_the_source(tmp_path: Path) -> None:
    assert read(tmp_path, f"{UTIL} 40 {T}\n").samples["cluster"].to_list() == ["c"]


def test_metric_columns_are_floats_with_null_for_what_was_not_scraped(tmp_path: Path) -> None:
    samples = read(tmp_path, f"{UTIL} 40 {T}\n{ENERGY} 1 {T + 1}\n").samples
    assert samples.schema["gpu_util_ratio"] == pl.Float64
    assert samples["energy_joules_total"].to_list() == [None, 0.001]


def test_seconds_where_ms_are_meant_are_a_bad_line(tmp_path: Path) -> None:
    batch = read(tmp_path, f"{UTIL} 40 {T}\n{UTIL} 40 {T // 1000}\n{UTIL} 40 {T * 1000}\n")
    assert (batch.samples.height, counts(batch)) == (1, {"bad_line": 2})
    assert any("seconds for ms" in finding.detail for finding in batch.findings)


def test_a_clock_that_was_wrong_for_a_moment_stretches_nothing(tmp_path: Path) -> None:
    lines = [f"{UTIL} 40 {T + 60_000 * n}\n" for n in range(100)]
    batch = read(tmp_path, "".join([*lines, f"{UTIL} 40 {T + 10**12}\n"]))
    assert (batch.samples.height, counts(batch)) == (100, {"bad_line": 1})
