"""What was imported is published, without passwords; files of before don't hold it."""

from __future__ import annotations

from pathlib import Path

import duckdb

from pipelines.import_log import IMPORT_LOG, import_log


def test_a_ledger_s_imports_are_read_without_a_password_and_read_again_once_published(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "ledger.duckdb")) as ledger:
        ledger.execute((Path(__file__).parents[2] / "pipelines" / "schema.sql").read_text())
        ledger.execute(
            "INSERT INTO imported VALUES ('a1', 'prometheus', 'http://me:secret@host:9090', true, 1, now()),"
            " ('b2', 'sacct', 'november.txt', false, 2, now())"
        )
        ledger.execute(
            "INSERT INTO lake_part VALUES ('a1', 'c', DATE '2026-11-01', 'p', 7),"
            " ('a1', 'c', DATE '2026-11-02', 'q', 5)"
        )
        found = import_log(ledger)
    assert found["source"].to_list() == ["http://host:9090", "november.txt"]
    assert found["samples"].to_list() == [12, 0]
    with duckdb.connect(str(tmp_path / "published.duckdb")) as published:
        published.register("incoming", found)
        published.execute("CREATE TABLE import_log AS SELECT * FROM incoming")
        assert import_log(published).equals(found)


def test_a_file_of_before_holds_none() -> None:
    with duckdb.connect() as before:
        found = import_log(before)
    assert found.height == 0
    assert list(found.columns) == list(IMPORT_LOG)
