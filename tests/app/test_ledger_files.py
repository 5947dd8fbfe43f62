"""Readers follow what is published, and open no other file than the one they are for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from app.ledger_files import LedgerFiles
from exporter.errors import LedgerError
from pipelines.config import load
from pipelines.operations import run_once
from pipelines.publish import current, publish, published_fleet
from tests.app.conftest import write


def files_open() -> set[str]:
    """Names of the DuckDB files that this process has open."""
    names = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            names.add(os.path.basename(os.readlink(descriptor)))  # noqa: PTH115, PTH119  a name, not a path that exists
        except OSError:
            continue
    return {name for name in names if ".duckdb" in name}


def test_a_member_s_file_is_the_only_one_open(published: Path) -> None:
    files = LedgerFiles(load(published).ledger)
    before = files_open()
    reader = files.tenant("vision")
    assert reader is not None
    reader.ask("SELECT * FROM charge")
    assert {name.partition("-")[2].rpartition("-")[0] for name in files_open() - before} <= {"vision"}
    assert files.open_files == [reader.name]


def test_a_tenant_s_file_holds_no_row_of_another(published: Path) -> None:
    files = LedgerFiles(load(published).ledger)
    publication = files.publication()
    assert set(publication.tenants) >= {"vision", "speech", "secret"}
    for tenant in publication.tenants:
        reader = files.tenant(tenant)
        assert reader is not None
        tables = reader.ask("SELECT table_name AS name FROM duckdb_tables()")["name"].to_list()
        for table in tables:
            rows = reader.ask(f"FROM {table}")
            if "tenant" in rows.columns and table != "lease":
                assert set(rows["tenant"].unique()) <= {tenant}, table
            text = str(rows.to_dicts())
            for other in {"secret": "secret-job"}.items():
                assert tenant == other[0] or other[1] not in text, table


def test_a_new_publication_is_followed_and_what_was_opened_can_still_be_read(tmp_path: Path) -> None:
    path = write(tmp_path)
    config = load(path)
    run_once(config)
    files = LedgerFiles(config.ledger)
    old = files.fleet()
    write(tmp_path, rates=[{"model": "*", "on_demand": "9.00"}], reservations=[])
    config = load(path)
    run_once(config)
    new = files.fleet()
    assert new.name != old.name
    assert new.ask("SELECT max(on_demand) FROM rate").item() == 9
    assert old.ask("SELECT max(on_demand) FROM rate").item() < 9


def test_files_that_nobody_can_ask_for_any_more_are_closed(tmp_path: Path) -> None:
    config = load(write(tmp_path))
    run_once(config)
    files = LedgerFiles(config.ledger)
    metered, as_of = published_fleet(config.ledger)
    for n in range(4):
        files.fleet()
        publish(config, metered, made_from=str(n), as_of=as_of)
    files.fleet()
    publication = current(config.ledger)
    assert publication is not None
    assert publication.fleet in files.open_files
    assert len(files.open_files) <= 2


def test_without_a_publication_the_mend_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="gpuledger run --once"):
        LedgerFiles(tmp_path).fleet()


def test_the_same_question_is_asked_once(published: Path) -> None:
    reader = LedgerFiles(load(published).ledger).fleet()
    query = "SELECT count(*) FROM usage WHERE state = $state"
    assert reader.ask(query, {"state": "idle"}) is reader.ask(query, {"state": "idle"})
    assert reader.ask(query, {"state": "down"}).item() != reader.ask(query, {"state": "idle"}).item()


def test_what_is_made_of_a_file_s_answers_is_no_other_file_s(published: Path) -> None:
    files = LedgerFiles(load(published).ledger)
    vision = files.tenant("vision")
    assert vision is not None
    assert vision.once("whose", lambda: "vision's") == "vision's"
    assert files.fleet().once("whose", lambda: "the fleet's") == "the fleet's"
    assert vision.once("whose", lambda: "made again") == "vision's"


def test_a_ledger_that_is_made_anew_is_read_anew(tmp_path: Path) -> None:
    config = load(write(tmp_path))
    run_once(config)
    files = LedgerFiles(config.ledger)
    first = files.fleet()
    before = first.ask("SELECT sum(gpu_hours) AS hours FROM charge")["hours"][0]

    shutil.rmtree(config.ledger)
    rows = (tmp_path / "allocations.csv").read_text().splitlines()
    (tmp_path / "allocations.csv").write_text("\n".join(rows[:2]) + "\n")
    run_once(config)
    again = files.fleet()
    assert (again.name, again.content != first.content) == (first.name, True)
    assert again.ask("SELECT sum(gpu_hours) AS hours FROM charge")["hours"][0] < before
