"""A close that can't write its book says so on one line, leaves the month open, and goes through once it can."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.book.shelf import shelf
from pipelines.book.verifying import verify
from pipelines.config import load
from pipelines.operations import report, run_once
from tests.end_to_end.commands import failure, gpuledger, obey_permissions
from tests.pipelines.book.conftest import CONFIG, HEAD, INVENTORY, NOVEMBER, OCTOBER, SEPTEMBER


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


def written(folder: Path, ledger: Path) -> Path:
    """Write a small book's folder with its ledger elsewhere, and publish it; two months are to be closed."""
    folder.mkdir(exist_ok=True)
    (folder / "gpuledger.yaml").write_text(CONFIG + f"ledger: {ledger}\n")
    (folder / "allocations.csv").write_text(HEAD + SEPTEMBER + OCTOBER + NOVEMBER)
    (folder / "inventory.csv").write_text(INVENTORY)
    run_once(load(folder / "gpuledger.yaml"))
    return folder / "gpuledger.yaml"


def resize(disk: Path, free_kib: int) -> None:
    status = os.statvfs(disk)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    subprocess.run(["mount", "-o", f"remount,size={used + free_kib * 1024}", disk], check=True)


def closed(path: Path) -> list[str]:
    config = load(path)
    assert verify(config).problems == []
    return [book.period for book in shelf(config.ledger / "books")]


@pytest.mark.parametrize("free_kib", [0, 24])
def test_on_a_full_disk_the_month_stays_open_and_the_book_whole(
    tmp_path: Path, small_disk: Path, free_kib: int
) -> None:
    path = written(tmp_path / "site", small_disk / "l")
    before = report(load(path), period="2026-09").to_json()
    resize(small_disk, free_kib)
    said = failure(gpuledger("close", "2026-09", "--config", path), 1)
    assert "No space left on device" in said
    assert "2026-09 is as it was" in said
    assert report(load(path), period="2026-09").to_json() == before
    assert closed(path) == []  # no half of it is left
    resize(small_disk, 64 * 1024)
    assert gpuledger("close", "2026-09", "--config", path).returncode == 0
    assert closed(path) == ["2026-09"]


def test_a_book_without_permission_is_named_and_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "site", tmp_path / "ledger")
    assert gpuledger("close", "2026-09", "--config", path).returncode == 0
    books = tmp_path / "ledger" / "books"
    books.chmod(0o555)
    said = failure(gpuledger("close", "2026-10", "--config", path, before=obey_permissions), 1)
    assert str(books) in said
    assert "Permission denied" in said
    assert "2026-10 is as it was" in said
    books.chmod(0o755)
    assert closed(path) == ["2026-09"]
    assert gpuledger("close", "2026-10", "--config", path).returncode == 0
    assert closed(path) == ["2026-09", "2026-10"]
