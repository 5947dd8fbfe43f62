"""Whatever lies in the files: an exit status by the contract, one clear line or a finding, and the ledger as it was."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pipelines import store
from tests.end_to_end.commands import (
    PROGRAM,
    config_of,
    failure,
    findings,
    gpuledger,
    measured,
    obey_permissions,
    printed,
    refused,
    reported,
)
from tests.end_to_end.folders import NOON_MS, UTIL, folder_of, minutes

NOISE: Final = random.Random(1).randbytes(200_000)
HEADER: Final = "start,end,gpus,device,model,tenant,workload,class\n"

Capture = pytest.CaptureFixture[str]


def truncated_gzip() -> bytes:
    whole = gzip.compress(minutes(500).encode())
    return whole[: len(whole) // 2]


@pytest.mark.parametrize(
    ("source", "files", "said"),
    [
        ("metrics: a.prom", {"a__prom": ""}, "hold no sample and no ended allocation; look at its files"),
        ("metrics: a.prom", {"a__prom": NOISE}, "(first in line "),
        ("metrics: a.prom", {"a__prom": "\n# HELP nothing\n\n"}, "hold no sample"),
        ("metrics: a.prom", {}, "a.prom: can't be read: No such file or directory"),
        ("metrics: .", {}, "is a directory, a file was expected"),
        ("metrics: a.prom", {"a__prom": f"{UTIL.format(gpu=0)} 5\n"}, "add `at: 2026-10-05T12:00:00Z` to this source"),
        ("metrics: a.prom.gz", {"a__prom__gz": b"\x1f\x8b\x08\x00" + NOISE}, "is broken gzip"),
        ("metrics: a.prom.gz", {"a__prom__gz": truncated_gzip()}, "is broken gzip"),
        ("samples: a.parquet", {"a__parquet": NOISE}, "is no whole Parquet file"),
        ("samples: a.parquet", {"a__parquet": ""}, "is no whole Parquet file"),
        ("samples: .", {}, "no Parquet file there"),
        ("sacct: a.txt", {"a__txt": ""}, "hold no sample"),
        ("sacct: a.txt", {"a__txt": NOISE}, "no header line with JobID"),
        ("sacct: a.txt", {"a__txt": "JobID|State\n1|COMPLETED\n"}, "no column Start"),
        ("allocations: a.csv", {"a__csv": ""}, "hold no sample"),
        ("allocations: a.csv", {"a__csv": NOISE}, "its header has no column start, end"),
        ("allocations: a.csv", {"a__csv": f"{HEADER}2026-10-05T12:00:00Z,9999-12-31,1,,H100,vision,w,\n"}, "no ended"),
        ("inventory: a.csv", {"a__csv": NOISE}, "its header has no column node"),
    ],
)
def test_a_source_that_holds_nothing_is_one_clear_line(
    tmp_path: Path, capsys: Capture, source: str, files: dict[str, Any], said: str
) -> None:
    assert said in refused(capsys, "replay", folder_of(tmp_path, source, **files))


@pytest.mark.parametrize("content", [b"", NOISE, b"sources: [", b"currency: USD\nsource: []\n", None])
@pytest.mark.parametrize("command", ["replay", "check", "run"])
def test_a_configuration_that_is_none_is_status_2(
    tmp_path: Path, capsys: Capture, command: str, content: bytes | None
) -> None:
    config = tmp_path / "gpuledger.yaml"
    if content is None:
        config.mkdir()
    else:
        config.write_bytes(content)
    more = {"replay": [tmp_path], "check": config_of(tmp_path), "run": ["--once", *config_of(tmp_path)]}
    assert refused(capsys, command, *more[command], status=2).startswith(str(config))
    assert list(tmp_path.iterdir()) == [config]


def at(minute: int, value: str) -> str:
    return f"{UTIL.format(gpu=0)} {value} {NOON_MS + 60_000 * minute}\n"


ENERGY: Final = UTIL.format(gpu=0).replace("DEV_GPU_UTIL", "DEV_TOTAL_ENERGY_CONSUMPTION")


def joules(*readings: tuple[int, str]) -> str:
    return "".join(f"{ENERGY} {value} {NOON_MS + 60_000 * minute}\n" for minute, value in readings)


@pytest.mark.parametrize(
    ("text", "hours", "utilization", "coverage", "kwh", "found"),
    [
        # Ten minutes at 50 %, then five that say nothing: the card was there and held, and how busy is not known.
        (
            minutes(10) + "".join(at(10 + i, v) for i, v in enumerate(["NaN", "+Inf", "-Inf", "-5", "1e400"])),
            15 / 60, 0.5, 10 / 15, None, {"invalid_sample": 5, "gap": 0},
        ),
        # What is no number at all is a bad line. The card's other lines go on, so nothing is missing of it.
        (minutes(3) + at(3, "0x10") + at(4, "MIG-GPU-x/3") + at(3, "50"), 4 / 60, 0.5, 1, None, {"bad_line": 2}),
        # Lines in any order are the same samples; the same line again changes nothing.
        ("".join(reversed(minutes(10).splitlines(keepends=True))), 10 / 60, 0.5, 1, None, {}),
        (minutes(10) * 2, 10 / 60, 0.5, 1, None, {"duplicate_sample": 10}),
        # Times that can't be are bad lines.
        (
            minutes(10) + "".join(f"{UTIL.format(gpu=0)} 50 {t}\n" for t in (-5, "1e12", "9" * 20, 253402300799998)),
            10 / 60, 0.5, 1, None, {"bad_line": 4},
        ),
        # Negative readings of a counter are dropped: 3.6 MJ between the good ones is 1 kWh, not a reset.
        (
            minutes(3) + joules((0, "0"), (1, "-5"), (2, "3600000000")),
            3 / 60, 0.5, 1, 1.0, {"invalid_sample": 1, "counter_reset": 0},
        ),
        # A counter that falls was reset: 1 kWh before, and after it the new value, 1.8 MJ.
        (
            minutes(3) + joules((0, "0"), (1, "3600000000"), (2, "1800000000")),
            3 / 60, 0.5, 1, 1.5, {"counter_reset": 1, "invalid_sample": 0},
        ),
    ],
)  # fmt: skip
def test_bad_values_are_counted_and_the_rest_is_kept(
    tmp_path: Path,
    capsys: Capture,
    text: str,
    hours: float,
    utilization: float,
    coverage: float,
    kwh: float | None,
    found: dict[str, int],
) -> None:
    report = json.loads(printed(capsys, "replay", folder_of(tmp_path, "metrics: a.prom", a__prom=text), "--json"))
    (vision,) = report["tenants"]
    assert vision["gpu_hours"]["allocated"] == pytest.approx(hours, abs=1e-6)
    assert vision["charges"]["total"] == f"{6 * hours:.2f}"
    assert vision["utilization"] == pytest.approx(utilization)
    assert vision["coverage"] == pytest.approx(coverage, abs=1e-6)
    assert vision["energy_kwh"] == (None if kwh is None else pytest.approx(kwh))
    counts = findings(report)
    assert {code: counts.get(code, 0) for code in found} == found


def test_a_label_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "metrics: a.prom")
    with (folder / "a.prom").open("wb") as stream:
        stream.write(minutes(5).encode())
        stream.write(UTIL.format(gpu=0).partition("train-0")[0].encode())
        stream.seek(1 << 30, os.SEEK_CUR)  # a hole: NULs that take no space on the disk
        stream.write(f'"}} 50 {NOON_MS}\n{minutes(5, start=5)}'.encode())
    out, peak_kib = measured("replay", folder, "--json")
    report = json.loads(out)
    assert peak_kib < 600 * 1024
    assert findings(report) == {"bad_line": 1}
    assert report["fleet"]["allocated_gpu_hours"] == pytest.approx(10 / 60, abs=1e-6)


@pytest.fixture
def ledger(tmp_path: Path, capsys: Capture) -> Path:
    """A folder whose ledger holds ten minutes of one card."""
    folder = folder_of(tmp_path / "site", "metrics: a.prom", a__prom=minutes(10))
    printed(capsys, "run", "--once", *config_of(folder))
    return folder


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "said"), [(remove, "No such file or directory"), (replace, "is a directory, a file was expected")]
)
@pytest.mark.parametrize("argv", [("run", "--once"), ("import", "metrics", "a.prom")])
def test_a_source_that_goes_bad_leaves_the_ledger_as_it_was(
    ledger: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    said: str,
    argv: tuple[str, ...],
) -> None:
    before = reported(ledger)
    monkeypatch.chdir(ledger)
    damage(ledger / "a.prom")
    assert said in refused(capsys, *argv)
    assert reported(ledger) == before


def test_a_source_without_permission_leaves_the_ledger_as_it_was(ledger: Path) -> None:
    before = reported(ledger)
    (ledger / "a.prom").chmod(0)
    done = gpuledger("run", "--once", "--config", ledger / "gpuledger.yaml", before=obey_permissions)
    assert "a.prom: can't be read: Permission denied" in failure(done, 1)
    assert reported(ledger) == before


def test_a_file_of_some_noise_adds_findings_and_no_hours(ledger: Path, capsys: Capture) -> None:
    before = reported(ledger)
    (ledger / "noise.prom").write_bytes(minutes(10).encode() + NOISE)
    assert "bad_line" in printed(capsys, "import", "metrics", ledger / "noise.prom", *config_of(ledger))
    after = reported(ledger)
    assert set(findings(after)) - set(findings(before)) == {"bad_line"}
    assert {**after, "findings": []} == {**before, "findings": []}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("metrics", NOISE),
        ("metrics", b"JobID|Start|End|State\n1|2026-10-05T12:00:00|2026-10-05T13:00:00|COMPLETED\n"),
        ("allocations", HEADER.encode() + NOISE.replace(b"\n", b" ") + b"\n"),
    ],
)
def test_a_file_of_another_kind_is_refused(ledger: Path, capsys: Capture, kind: str, content: bytes) -> None:
    before = reported(ledger)
    (ledger / "other").write_bytes(content)
    said = refused(capsys, "import", kind, ledger / "other", *config_of(ledger))
    assert f"nothing of it can be read as {kind}; import it as what it is" in said
    assert reported(ledger) == before


@pytest.mark.parametrize("kind", ["sacct", "allocations", "metrics"])
def test_a_file_that_can_not_be_read_is_not_half_imported(ledger: Path, capsys: Capture, kind: str) -> None:
    before = reported(ledger)
    broken, good = ledger / "broken", ledger / "good"
    broken.write_bytes(b"\x1f\x8b\x08\x00" + NOISE)
    good.write_text(minutes(10, start=10))
    assert f"{broken}: is broken gzip" in refused(capsys, "import", kind, broken, good, *config_of(ledger))
    assert reported(ledger) == before


@pytest.mark.parametrize("part", ["", "lock", "ledger.duckdb", "lake/cluster=default/day=2026-10-05", "published"])
def test_a_ledger_without_permission_is_named_and_kept(ledger: Path, capsys: Capture, part: str) -> None:
    before = reported(ledger)
    path = ledger / "ledger" / part
    mode = path.stat().st_mode & 0o777
    path.chmod(mode & ~0o222)
    more = ledger / "more.prom"
    more.write_text(minutes(10, start=10))
    done = gpuledger("import", "metrics", more, *config_of(ledger), before=obey_permissions)
    assert str(ledger / "ledger") in failure(done, 1)
    path.chmod(mode)
    assert reported(ledger) == before
    printed(capsys, "import", "metrics", more, *config_of(ledger))
    assert reported(ledger)["fleet"]["allocated_gpu_hours"] == pytest.approx(20 / 60, abs=1e-6)


def test_a_ledger_that_is_none_is_said_and_not_written_over(ledger: Path, capsys: Capture) -> None:
    database = ledger / "ledger" / "ledger.duckdb"
    database.write_bytes(NOISE)
    assert str(database) in refused(capsys, "run", "--once", *config_of(ledger))
    assert database.read_bytes() == NOISE


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be made smaller."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs: run the tests as root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def resize(disk: Path, free_kib: int) -> None:
    status = os.statvfs(disk)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    subprocess.run(["mount", "-o", f"remount,size={used + free_kib * 1024}", disk], check=True)


@pytest.mark.parametrize("free_kib", [16, 160, 1500])
def test_a_full_disk_is_said_and_the_ledger_intact(
    tmp_path: Path, small_disk: Path, capsys: Capture, free_kib: int
) -> None:
    folder = folder_of(tmp_path / "site", "metrics: a.prom", more=f"ledger: {small_disk}/l", a__prom=minutes(10))
    printed(capsys, "run", "--once", *config_of(folder))
    before = reported(folder)
    more = folder / "more.prom"
    more.write_text(minutes(1000, gpus=4, utilization=70))
    # DuckDB writes in blocks of 256 KiB: with so much room it is the lake, or a log, or a file that finds it full.
    resize(small_disk, free_kib)
    said = failure(gpuledger("import", "metrics", more, *config_of(folder)), 1)
    assert "No space left on device" in said
    assert "nothing was changed" in said
    assert reported(folder) == before
    resize(small_disk, 64 * 1024)
    printed(capsys, "import", "metrics", more, *config_of(folder))
    assert reported(folder)["fleet"]["devices"] == 4


def test_a_second_process_waits_for_the_first(ledger: Path) -> None:
    more = ledger / "more.prom"
    more.write_text(minutes(10, start=10))
    with store.held(ledger / "ledger", "a test"):
        second = subprocess.Popen(
            [*PROGRAM, "import", "metrics", more, *config_of(ledger)], stdout=subprocess.PIPE, text=True
        )
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=2)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert out.startswith("read 10 samples")


def test_a_command_that_is_stopped_leaves_nothing_temporary(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "site", "metrics: a.prom")
    os.mkfifo(folder / "a.prom")  # the replay waits for what nobody writes
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen([*PROGRAM, "replay", folder], env=environment, stderr=subprocess.PIPE)
    said = None
    with (folder / "a.prom").open("w"):  # returns once the other end is open
        while said is None:
            process.send_signal(signal.SIGTERM)
            # One that comes between a look for signals and the wait for the pipe is seen with the next.
            with suppress(subprocess.TimeoutExpired):
                said = process.communicate(timeout=2)[1]
    assert said == b""
    assert process.returncode == 128 + signal.SIGTERM
    assert list(temporary.iterdir()) == []
