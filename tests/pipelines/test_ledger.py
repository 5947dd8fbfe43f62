"""The ledger under repeats, any order, crashes, company, full disks and closed folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from exporter.errors import LedgerBusy, LedgerError
from pipelines import ledger as ledger_module
from pipelines import store
from pipelines.ledger import LAKE_NAME, LEDGER_NAME, open_ledger
from pipelines.operations import import_files, run_once
from pipelines.publish import FOLDER, POINTER
from tests.pipelines.folders import after_a_run, configured, imported, row_counts, table, told, usage
from tests.pipelines.random_scenes import scenes
from tests.pipelines.scene import H100, Allocation, Job, Listed, Scene, seen

SCENE: Final = Scene(
    [seen("GPU-a", (0, 60), "astro/fit", util=40), seen("GPU-b", (0, 60), util=0), seen("GPU-c", (0, 60), "bio/fold")],
    jobs=[Job("7", (10, 50), account="bio")],
    allocations=[Allocation((0, 30), model="NVIDIA B200", tenant="astro", workload="far")],
    inventory=[Listed(device=f"GPU-{name}") for name in "abc"],
)
KINDS: Final = {
    "metrics.prom": "metrics",
    "sacct.txt": "sacct",
    "allocations.csv": "allocations",
    "inventory.csv": "inventory",
}


def test_a_second_run_over_the_same_files_reads_and_publishes_nothing(tmp_path: Path) -> None:
    config = after_a_run(SCENE, tmp_path)
    before = told(config), usage(config), row_counts(config), (config.ledger / FOLDER / POINTER).read_bytes()
    again = run_once(config)
    assert (again.ingested.sources, again.ingested.unchanged, again.rebuilt) == (0, 4, False)
    assert (told(config), usage(config), row_counts(config), (config.ledger / FOLDER / POINTER).read_bytes()) == before


def test_importing_what_a_run_has_read_changes_nothing(tmp_path: Path) -> None:
    config = after_a_run(SCENE, tmp_path)
    before = told(config), row_counts(config)
    for name, kind in KINDS.items():
        assert import_files(config, kind, [tmp_path / name, tmp_path / name]).ingested.sources == 0
    assert (told(config), row_counts(config)) == before


def test_a_copy_under_another_name_changes_nothing(tmp_path: Path) -> None:
    config = after_a_run(SCENE, tmp_path)
    before = told(config), row_counts(config)
    for name, kind in KINDS.items():
        copy = shutil.copy(tmp_path / name, tmp_path / f"copy-of-{name}")
        import_files(config, kind, [Path(copy)])
    assert (told(config), row_counts(config)) == before


def test_a_file_that_grew_adds_what_is_new(tmp_path: Path) -> None:
    config = after_a_run(Scene([seen("GPU-a", (0, 30), "astro/fit")]), tmp_path)
    Scene([seen("GPU-a", (0, 60), "astro/fit")]).write(tmp_path)
    run_once(config)
    assert told(config)["fleet"]["allocated_gpu_hours"] == 1


def test_a_configured_list_is_what_its_newest_file_says(tmp_path: Path) -> None:
    def listed(*names: str) -> Scene:
        return Scene([seen("GPU-a", (0, 60))], inventory=[Listed(device=name) for name in names])

    config = after_a_run(listed("GPU-a", "GPU-gone"), tmp_path)
    assert told(config)["fleet"]["capacity_gpu_hours"] == 2
    for names, capacity in ((("GPU-a",), 1), (("GPU-a", "GPU-gone"), 2)):
        listed(*names).write(tmp_path)
        run_once(config)
        assert told(config)["fleet"]["capacity_gpu_hours"] == capacity


def test_two_equal_rows_of_one_file_are_two_holds_and_of_two_files_one(tmp_path: Path) -> None:
    row = Allocation((0, 60), model="NVIDIA B200", tenant="astro", workload="far")
    config = after_a_run(Scene(allocations=[row, row]), tmp_path)
    assert told(config)["fleet"]["allocated_gpu_hours"] == 2
    text = (tmp_path / "allocations.csv").read_text()
    (tmp_path / "again.csv").write_text(text + "\n")
    import_files(config, "allocations", [tmp_path / "again.csv"])
    assert told(config)["fleet"]["allocated_gpu_hours"] == 2


def lines_of(file: Path) -> tuple[str, list[str]]:
    """The header, where the file has one, and the other lines."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return ("", lines) if file.suffix == ".prom" else (lines[0] + "\n", lines[1:])


def written(path: Path, header: str, lines: Iterable[str]) -> Path:
    path.write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def sources_of(folder: Path) -> list[tuple[str, Path]]:
    return [(kind, folder / name) for name, kind in KINDS.items() if (folder / name).exists()]


@settings(
    max_examples=12, phases=(Phase.explicit, Phase.generate)
)  # shrinking takes minutes: each example is many imports
@given(scenes(), st.integers(2, 7), st.booleans(), st.randoms(use_true_random=False))
def test_files_in_parts_that_overlap_lines_in_any_order_and_sources_in_any_order_give_one_ledger(
    scene: Scene, every: int, backwards: bool, chance: Random
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        whole = imported(configured(scene, folder / "whole"), sources_of(folder / "whole"))
        config = configured(scene, folder / "parts")
        pieces = []
        for kind, file in sources_of(folder / "parts"):
            header, lines = lines_of(file)
            if kind == "inventory":  # a list, and no command imports a part of one
                pieces.append((kind, file))
                continue
            some = [line for n, line in enumerate(lines) if n % every]
            others = [line for n, line in enumerate(lines) if n % every < 2]
            chance.shuffle(some)
            parts = (("some", some), ("others", others))
            pieces += [(kind, written(file.with_name(f"{which}-{file.name}"), header, part)) for which, part in parts]
        chance.shuffle(pieces)
        parted = imported(config, reversed(pieces) if backwards else pieces)
        assert_frame_equal(parted.metered.usage, whole.metered.usage, check_exact=True)
        assert_frame_equal(parted.metered.leases, whole.metered.leases)
        assert parted.report() == whole.report()


def test_accounting_cut_into_files_speaks_for_the_same_nodes(tmp_path: Path) -> None:
    jobs = [Job("1", (0, 60), nodes="rack1"), Job("2", (30, 90), nodes="rack2"), Job("3", (80, 120), nodes="rack1")]
    racks = [Listed(node=node, gpus="8", model=H100) for node in ("rack1", "rack2")]
    whole = configured(Scene(jobs=jobs, inventory=racks), tmp_path / "whole")
    config = configured(Scene(inventory=racks), tmp_path / "parts")
    header, lines = lines_of(whole.path.parent / "sacct.txt")
    files = [("sacct", written(tmp_path / f"{n}.txt", header, [line])) for n, line in enumerate(lines)]
    parted = imported(config, [("inventory", tmp_path / "parts" / "inventory.csv"), *files])
    assert_frame_equal(parted.metered.usage, imported(whole, sources_of(tmp_path / "whole")).metered.usage)


class Crash(Exception):
    pass


def test_an_import_that_fails_between_lake_and_commit_leaves_the_ledger_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = after_a_run(Scene([seen("GPU-a", (0, 30), "astro/fit")]), tmp_path)
    before = told(config), row_counts(config)
    more = Scene([seen("GPU-b", (0, 60), "bio/fold")], jobs=[Job("7", (0, 60))]).write(tmp_path / "more")

    def fail(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(ledger_module.Ledger, "_insert", fail)
        with pytest.raises(Crash):
            import_files(config, "metrics", [more / "metrics.prom"])
    assert list((config.ledger / LAKE_NAME).rglob("*.parquet")), "the lake has what nothing lists yet"
    assert (told(config), row_counts(config)) == before
    import_files(config, "metrics", [more / "metrics.prom"])
    assert told(config)["fleet"]["allocated_gpu_hours"] == 1.5


KILLED: Final = """
import os, sys
from pathlib import Path
from pipelines import lake, ledger, publish
from pipelines.config import load
from pipelines.operations import run_once

def dies(module, name, after):
    whole = getattr(module, name)
    def cut_short(*args, **kwargs):
        if after:
            whole(*args, **kwargs)
        os._exit(9)
    setattr(module, name, cut_short)

where = {
    "lake": (lake, "write", True),
    "stages": (ledger.Ledger, "store_metered", False),
    "publication": (publish, "_point", False),
    "pointer": (publish, "_prune", False),
}
dies(*where[sys.argv[2]])
run_once(load(Path(sys.argv[1]) / "gpuledger.yaml"))
"""


@pytest.mark.parametrize("moment", ["lake", "stages", "publication", "pointer"])
def test_a_process_that_dies_halfway_leaves_a_ledger_that_the_next_run_makes_right(moment: str, tmp_path: Path) -> None:
    clean = after_a_run(SCENE, tmp_path / "clean")
    config = configured(SCENE, tmp_path / "killed")
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "killed"), moment], check=False)
    assert died.returncode == 9
    run_once(config)
    assert told(config) == told(clean)
    assert usage(config) == usage(clean)
    assert row_counts(config) == row_counts(clean)


HOLDER: Final = """
import sys
from pathlib import Path
from pipelines.ledger import open_ledger
with open_ledger(Path(sys.argv[1]), "gpuledger close"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.communicate("")


def test_who_waited_in_vain_is_told_who_holds_the_ledger(tmp_path: Path) -> None:
    with (
        held_by_another(tmp_path) as other,
        pytest.raises(LedgerBusy) as told_to,
        open_ledger(tmp_path, "gpuledger import", wait_s=0),
    ):
        pytest.fail("two processes hold one ledger")
    assert f"held by process {other.pid} (gpuledger close)" in str(told_to.value)
    assert "\n" not in str(told_to.value)


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as other:
        waits = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            other.communicate("")

        with store.held(tmp_path, "gpuledger import", sleep=sleep):
            assert waits


def test_readers_need_no_hold(tmp_path: Path) -> None:
    config = after_a_run(SCENE, tmp_path)
    before = told(config)
    with held_by_another(config.ledger):
        assert told(config) == before


def test_a_hold_ends_with_its_process(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with open_ledger(tmp_path, "gpuledger import", wait_s=0):
            pass


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of a megabyte at the folder; the test is skipped where this user may mount none."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a full disk needs root to mount one: sudo .venv/bin/pytest tests/pipelines/test_ledger.py")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that leaves no byte free."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return ballast


def test_a_full_disk_is_a_clear_error_and_the_ledger_is_intact(tmp_path: Path) -> None:
    config = configured(Scene([seen("GPU-a", (0, 30), "astro/fit")]), tmp_path)
    more = Scene([seen(f"GPU-{n}", (0, 200), f"bio/p{n}", util=n) for n in range(40)]).write(tmp_path / "more")
    with small_disk(config.ledger):
        subprocess.run(["mount", "-o", "remount,size=64m", str(config.ledger)], check=True)
        run_once(config)
        before = told(config), row_counts(config)
        ballast = fill(config.ledger)
        with pytest.raises(LedgerError) as told_to:
            import_files(config, "metrics", [more / "metrics.prom"])
        assert str(config.ledger) in str(told_to.value)
        assert "\n" not in str(told_to.value)
        assert (told(config), row_counts(config)) == before
        ballast.unlink()
        import_files(config, "metrics", [more / "metrics.prom"])
        assert told(config)["fleet"]["devices"] == 41


def no_space(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("name", ["fsync", "pwrite"])
def test_a_write_that_finds_no_space_is_a_clear_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = after_a_run(Scene([seen("GPU-a", (0, 30), "astro/fit")]), tmp_path)
    before = told(config), row_counts(config)
    more = Scene([seen("GPU-b", (0, 60), "bio/fold")]).write(tmp_path / "more")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, no_space)
        with pytest.raises(LedgerError, match="No space left on device"):
            import_files(config, "metrics", [more / "metrics.prom"])
    assert (told(config), row_counts(config)) == before


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_without_permission_is_a_clear_error(mode: int, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(mode)
    ledger = closed / "ledger"
    with as_nobody(), pytest.raises(LedgerError, match="Permission denied") as told_to, open_ledger(ledger, "a test"):
        pytest.fail("a closed folder was opened")
    assert str(closed) in str(told_to.value)


def test_a_ledger_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("not a folder")
    with pytest.raises(LedgerError, match="choose a folder"), open_ledger(tmp_path / "ledger", "gpuledger run"):
        pass


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    config = configured(SCENE, tmp_path)
    config.ledger.mkdir()
    (config.ledger / LEDGER_NAME).write_bytes(b"not a database at all, but long enough to be read" * 100)
    with pytest.raises(LedgerError, match="move it away") as told_to:
        run_once(config)
    assert str(config.ledger / LEDGER_NAME) in str(told_to.value)


def test_a_part_of_the_lake_that_is_gone_is_named(tmp_path: Path) -> None:
    config = after_a_run(SCENE, tmp_path)
    for part in (config.ledger / LAKE_NAME).rglob("*.parquet"):
        part.unlink()
    Scene([seen("GPU-x", (0, 5))]).write(tmp_path / "more")
    with pytest.raises(LedgerError, match="a part of the lake is missing"):
        import_files(config, "metrics", [tmp_path / "more" / "metrics.prom"])


def test_a_part_of_the_lake_that_was_cut_short_is_named_with_its_mend(tmp_path: Path) -> None:
    config = after_a_run(Scene([seen("GPU-a", (0, 5)), seen("GPU-b", (1440, 1445))]), tmp_path)
    _, cut = sorted((config.ledger / LAKE_NAME).rglob("*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-100])
    Scene([seen("GPU-x", (0, 5))]).write(tmp_path / "more")
    with pytest.raises(LedgerError, match=f"{cut.name}: is a damaged part of the lake: .*; restore it from a backup"):
        import_files(config, "metrics", [tmp_path / "more" / "metrics.prom"])


def test_stages_of_an_older_release_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = after_a_run(SCENE, tmp_path)
    before = told(config)
    monkeypatch.setattr("pipelines.ledger.STAGES", 99)
    with open_ledger(config.ledger, "a test") as ledger:
        ledger._connection.execute("ALTER TABLE finding DROP COLUMN subject").fetchall()
        with pytest.raises(LedgerError, match="older release; run `gpuledger run --once`"):
            ledger.metered()
    assert run_once(config).rebuilt
    assert told(config) == before


def test_the_lake_holds_what_was_measured_and_nothing_derived(tmp_path: Path) -> None:
    config = after_a_run(Scene([seen("GPU-a", (0, 3), "astro/fit", util=[10, 808334905, 30])]), tmp_path)
    (part,) = (config.ledger / LAKE_NAME).rglob("*.parquet")
    stored = pl.read_parquet(part)
    assert stored["gpu_util_ratio"].to_list() == [0.1, 8083349.05, 0.3]
    assert set(stored["pod"]) == {"fit"}
    assert "cluster=hall" in str(part)


def test_an_import_without_samples_is_known_again(tmp_path: Path) -> None:
    config = after_a_run(Scene(allocations=[Allocation((0, 60), tenant="astro", workload="w")]), tmp_path)
    assert table(config.ledger / LEDGER_NAME, "lake_part") == []
    assert run_once(config).ingested.unchanged == 1
