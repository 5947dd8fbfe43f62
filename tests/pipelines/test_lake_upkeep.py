"""The sample lake under upkeep: merging, proving and letting go change nothing that anybody is billed for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from exporter.errors import LedgerError, UsageError
from gpuledger import cli
from pipelines import lake
from pipelines.book.closing import close
from pipelines.config import Config, Source
from pipelines.ingest import ingest
from pipelines.lake_upkeep import compact, list_days, prune, verify
from pipelines.ledger import LAKE_NAME, open_ledger
from pipelines.operations import import_files, run_once
from tests.pipelines.folders import configured, told, usage
from tests.pipelines.scene import Scene, seen

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = 1440


def in_pieces(folder: Path, *, days: int = 1) -> Config:
    """A ledger whose days were imported in three pieces each."""
    config = configured(Scene(), folder)
    for day in range(days):
        for piece in range(3):
            first = day * DAY + piece * 60
            scene = Scene(
                [seen("GPU-a", (first, first + 60), "astro/fit"), seen("GPU-b", (first, first + 60), every=5)]
            )
            written = scene.write(folder / f"piece-{day}-{piece}") / "metrics.prom"
            import_files(config, "metrics", [written])
    return config


def samples(config: Config) -> pl.DataFrame:
    with open_ledger(config.ledger, "a test") as ledger:
        paths = sorted({part.path for part in ledger.parts()})
        return pl.concat(lake.read(ledger.folder / LAKE_NAME, paths)).sort("device", "time")


def test_parts_of_a_day_become_one_and_nothing_else_changes(tmp_path: Path) -> None:
    config = in_pieces(tmp_path, days=2)
    before = told(config), usage(config), samples(config)
    with open_ledger(config.ledger, "a test") as ledger:
        assert [d.parts for d in list_days(ledger)] == [3, 3]
        merged = compact(ledger)
        assert (merged.days, merged.before, merged.after) == (2, 6, 2)
        assert [(d.parts, d.samples) for d in list_days(ledger)] == [(1, 216), (1, 216)]
        assert list(verify(ledger)) == []
        assert compact(ledger).days == 0
    assert not run_once(config).rebuilt
    assert (told(config), usage(config)) == before[:2]
    assert_frame_equal(samples(config), before[2])
    # What was imported is still known, and what comes next goes on from there.
    assert import_files(config, "metrics", [tmp_path / "piece-0-0" / "metrics.prom"]).ingested.sources == 0
    later = Scene([seen("GPU-a", (DAY + 180, DAY + 240), "astro/fit")]).write(tmp_path / "later") / "metrics.prom"
    import_files(config, "metrics", [later])
    assert told(config)["fleet"]["allocated_gpu_hours"] > before[0]["fleet"]["allocated_gpu_hours"]


def test_samples_that_no_pass_has_read_yet_are_read_after_they_were_merged(tmp_path: Path) -> None:
    config = in_pieces(tmp_path)
    folder = Scene([seen("GPU-a", (180, 240), "astro/fit")]).write(tmp_path / "killed")
    source = Source.model_validate({"metrics": str(folder / "metrics.prom"), "cluster": "default"})
    with open_ledger(config.ledger, "a test") as ledger:
        ingest(ledger, [source], config, configured=False, now=NOW)  # and killed before it was metered
        assert compact(ledger).before == 4
    before = told(config)["fleet"]["allocated_gpu_hours"]
    assert run_once(config).rebuilt
    assert told(config)["fleet"]["allocated_gpu_hours"] == before + 1


def test_a_compaction_that_fails_leaves_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = in_pieces(tmp_path)
    before = samples(config)

    def full(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, open_ledger(config.ledger, "a test") as ledger:
        patched.setattr(lake, "_write_tables", full)
        with pytest.raises(LedgerError, match="No space left"):
            compact(ledger)
    assert_frame_equal(samples(config), before)


@pytest.mark.parametrize("how", ["missing", "cut", "changed"])
def test_a_damaged_part_is_named_with_its_mend(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = in_pieces(tmp_path)
    part = min((config.ledger / LAKE_NAME).rglob("*.parquet"))
    content = part.read_bytes()
    if how == "missing":
        part.unlink()
    else:
        part.write_bytes(content[:-9] if how == "cut" else content[:200] + b"x" + content[201:])
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lake", "verify"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(part) in line
    assert ("is missing" if how == "missing" else "is damaged") in line
    assert "import" in line
    assert "metrics.prom again" in line
    if how != "missing":
        part.write_bytes(content)
        assert cli.main(["lake", "verify"]) == 0


def test_samples_of_closed_months_go_and_their_bills_stay(tmp_path: Path) -> None:
    config = in_pieces(tmp_path)
    april = 60 * 24 * 40
    folder = Scene([seen("GPU-a", (april, april + 60), "astro/fit")]).write(tmp_path / "april")
    import_files(config, "metrics", [folder / "metrics.prom"])
    keep = timedelta(days=7)
    with open_ledger(config.ledger, "a test") as ledger:
        kept = prune(ledger, config, keep=keep, now=NOW)
        assert (kept.days, kept.kept_from) == ([], None)
    close(config, "2026-03", now=NOW, by="us", force=True, reason="a test")
    before = told(config), usage(config)
    stray = config.ledger / LAKE_NAME / "left.parquet"
    stray.write_bytes(b"")
    with open_ledger(config.ledger, "a test") as ledger:
        dry = prune(ledger, config, keep=keep, now=NOW, dry=True)
        assert [d.day for d in dry.days] == []  # of open months, and the days before them, nothing goes
        assert dry.kept_from == date(2026, 2, 28)
        assert dry.strays == [stray]
    close(config, "2026-04", now=NOW, by="us", force=True, reason="a test")
    with open_ledger(config.ledger, "a test") as ledger:
        assert [d.day for d in prune(ledger, config, keep=keep, now=NOW).days] == [date(2026, 3, 2)]
        assert [d.day for d in list_days(ledger)] == [date(2026, 4, 11)]
    assert not stray.exists()
    assert not run_once(config).rebuilt
    assert usage(config) == before[1]
    later = Scene([seen("GPU-a", (april + 60, april + 90), "astro/fit")]).write(tmp_path / "later") / "metrics.prom"
    import_files(config, "metrics", [later])
    assert set(before[1]) - set(usage(config)) == set()


def test_nothing_is_kept_for_no_time(tmp_path: Path) -> None:
    config = in_pieces(tmp_path)
    with open_ledger(config.ledger, "a test") as ledger, pytest.raises(UsageError, match="more than zero"):
        prune(ledger, config, keep=timedelta(0), now=NOW)


def test_the_same_samples_of_two_imports_are_one_part_and_count_once(tmp_path: Path) -> None:
    config = configured(Scene(), tmp_path)
    written = Scene([seen("GPU-a", (0, 20), "astro/fit")]).write(tmp_path / "piece") / "metrics.prom"
    import_files(config, "metrics", [written])
    with open_ledger(config.ledger, "a test") as ledger:
        (before,) = list_days(ledger)
    written.write_text(written.read_text().replace("# EOF", "# a remark\n# EOF") + "# another\n")
    import_files(config, "metrics", [written])
    with open_ledger(config.ledger, "a test") as ledger:
        assert len(ledger.parts()) == 2
        (after,) = list_days(ledger)
        assert list(verify(ledger)) == []
    assert (after.parts, after.samples) == (before.parts, before.samples)
