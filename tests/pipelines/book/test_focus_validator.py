"""The public validator of FOCUS, in an environment of its own: it passes a closed month but for wrong rules."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from pipelines.book.closing import close
from pipelines.book.focus.export import export
from tests.pipelines.book.conftest import Book

PACKAGES: Final = ("focus-validator==2.2.1", "pyarrow<23")
WRONG_RULES: Final = {
    # They read "MUST be null when …" the other way round.
    "CapacityReservationStatus-C-003-C",
    "CapacityReservationStatus-C-004-C",
    "CommitmentDiscountStatus-C-004-C",
    "InvoiceId-C-004-C",
}


def newer_python() -> str | None:
    """A Python of 3.12 or newer that runs."""
    named = [shutil.which(f"python3.{minor}") for minor in (14, 13, 12)]
    kept = sorted(Path.home().glob(".pyenv/versions/3.1[2-9].*/bin/python"))
    for candidate in [*named, *map(str, kept)]:
        if candidate and subprocess.run([candidate, "--version"], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.fixture(scope="module")
def validator(pytestconfig: pytest.Config) -> Path:
    """The validator's program, installed once and kept with pytest's cache."""
    home = pytestconfig.cache.mkdir("focus-validator") if pytestconfig.cache else None
    if home is None:
        pytest.skip("pytest's cache is turned off: nowhere to keep the validator")
    program = home / "venv" / "bin" / "focus-validator"
    if not program.exists():
        python = newer_python()
        if python is None:
            pytest.skip("focus-validator needs Python 3.12 or newer: apt-get install python3.12-venv")
        subprocess.run([python, "-m", "venv", "--clear", str(home / "venv")], check=True, capture_output=True)
        pip = [str(home / "venv" / "bin" / "pip"), "install", "--quiet", *PACKAGES]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"can't be installed: {' '.join(pip)}: {done.stderr.strip().splitlines()[-1:]}")
    return program


def test_a_closed_month_passes_but_for_the_rules_that_are_wrong(validator: Path, book: Book, tmp_path: Path) -> None:
    config = book()
    close(config, "2026-09", now=datetime(2027, 1, 1, tzinfo=UTC), by="ada")
    close(config, "2026-10", now=datetime(2027, 1, 1, tzinfo=UTC), by="ada")
    exported = tmp_path / "focus.csv"
    exported.write_bytes(export(config, "2026-10", format_="csv", version="1.2"))
    where = next((validator.parent.parent / "lib").glob("python3.*/site-packages"))
    command = [str(validator), "--data-file", str(exported), "--validate-version", "1.2", "--block-download"]
    command += ["--applicability-criteria", "ALL"]  # else it skips the rules of optional abilities
    shown = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True).stdout
    # It exits 0 whatever it finds: what it prints is the verdict.
    passed = re.search(r"Pass: (\d+)", shown)
    assert passed is not None, shown[:500]
    assert int(passed[1]) > 300
    failed = re.findall(r"^❌ (\S+): FAIL .*msg=(.*)$", shown, re.MULTILINE)
    # A rule that is the sum of others fails with them: only they say what is wrong.
    assert {rule for rule, why in failed if "AND failed" not in why} - WRONG_RULES == set()
