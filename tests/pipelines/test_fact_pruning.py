"""What a live source is pruned of decides nothing: the stages make the same of what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import fact_store
from pipelines.billing_hours import billed_table
from pipelines.fact_pruning import prune
from pipelines.facts import STANDING, Facts, joined, rows_of, standing
from pipelines.health import spells
from pipelines.listings import with_listings
from pipelines.tables import INVENTORY

BEGIN = datetime(2026, 10, 5, tzinfo=UTC)
LIVE, FILE = "slurmrestd http://slurm:6820 (hpc)", "state.txt"
ACTIVE = "SELECT id FROM imported"
Told = Mapping[str, pl.DataFrame]


def at(number: int | None) -> datetime | None:
    return None if number is None else BEGIN + timedelta(minutes=5 * number)


# How a node is in one answer: its cards (None: not listed), its state and since when it is so.
node = st.tuples(
    st.sampled_from([None, 4, 8]),
    st.sampled_from(["ok", "repair", "down"]),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
answer = st.tuples(node, node, st.sampled_from([LIVE, LIVE, LIVE, FILE]), st.integers(0, 2))


def told(number: int, nodes: tuple[tuple[int | None, str, int | None, bool], ...], running: int) -> Told:
    """The facts of one answer."""
    named = [(f"n{place}", *node) for place, node in enumerate(nodes) if node[0] is not None]
    common = {"cluster": "hpc", "observed": at(number)}
    listed: list[dict[str, object]] = [
        {**common, "node": name, "model": "h100", "gpus": gpus, "devices": [], "used": float(used)}
        for name, gpus, _, _, used in named
    ]
    conditions = [
        {**common, "node": name, "state": state, "reason": state, "source": "slurm",
         "from": at(since) if state != "ok" else None}
        for name, _, state, since, _ in named
    ]  # fmt: skip
    jobs = [{"cluster": "hpc", "labelled_as": str(job), "start": at(job)} for job in range(running)]
    accounts = [{**common, "account": f"a{running}", "parent": "root"}]
    return joined(
        [
            rows_of("scheduler_node", listed),
            rows_of("condition", conditions),
            rows_of("slurm_account", accounts),
            rows_of("quota_limit", [{**common, "kind": f"kind{running}", "name": "big", "gpus": 4.0}]),
            rows_of("holding", [{**job, "node": "n0", "device": "GPU-a", "observed": at(number)} for job in jobs]),
            rows_of("run_name", [{"cluster": "hpc", "workload": job["labelled_as"], "name": "train"} for job in jobs]),
            rows_of(
                "slurm_billing",
                [{**job, "end": at(number + 1), "ended": number > 3, "seconds": 60, "billing": 8} for job in jobs],
            ),
        ]
    )


@contextmanager
def ledger() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE imported (id VARCHAR, source VARCHAR)")
        fact_store.prepare(connection)
        yield connection


def follow(connection: duckdb.DuckDBPyConnection, number: int, source: str, facts: Told) -> None:
    connection.execute("INSERT INTO imported VALUES (?, ?)", [str(number), source])
    fact_store.replace(connection, str(number), facts)
    if source == LIVE:
        prune(connection, LIVE, str(number))


def made_of(facts: Facts) -> dict[str, object]:
    """What the stages make of them."""
    inventory = with_listings(pl.DataFrame(schema=INVENTORY), facts["scheduler_node"])
    seen = facts["holding"].drop("observed").unique().rows()
    return {
        "inventory": sorted(inventory.rows(), key=str),
        "spells": sorted(spells(facts["condition"]), key=str),
        "holding": sorted(seen, key=str),
        "run_name": sorted(facts["run_name"].unique().rows()),
        "billed": billed_table(facts).rows(),
        **{name: sorted(facts[name].rows(), key=str) for name in STANDING},
    }


@settings(max_examples=12)
@given(st.lists(answer, min_size=4, max_size=8))
def test_the_stages_make_the_same_of_what_is_left(
    answers: list[tuple[tuple[int | None, str, int | None, bool], tuple[int | None, str, int | None, bool], str, int]],
) -> None:
    with ledger() as connection:
        everything = []
        for number, (one, other, source, running) in enumerate(answers):
            facts = told(number, (one, other), running)
            everything.append(facts)
            follow(connection, number, source, facts)
        assert made_of(fact_store.read(connection, ACTIVE)) == made_of(standing(joined(everything)))


@pytest.mark.parametrize("passes", [5, 25])
def test_what_stays_the_same_takes_no_more_room(passes: int) -> None:
    with ledger() as connection:
        for number in range(passes):
            follow(
                connection, number, LIVE, told(number, ((8, "ok", None, number % 2 == 0), (4, "repair", 0, True)), 2)
            )
        left = {
            name: connection.execute(f"SELECT count(*) FROM fact_{name}").fetchall()[0][0]
            for name in ("scheduler_node", "condition", "slurm_account", "quota_limit", "holding", "run_name")
        }
        assert left == {
            "scheduler_node": 4, "condition": 4, "slurm_account": 1, "quota_limit": 1, "holding": 2, "run_name": 2,
        }  # fmt: skip


def test_another_sources_answers_stay() -> None:
    with ledger() as connection:
        for number, source in enumerate((FILE, FILE, FILE, LIVE, LIVE, LIVE)):
            follow(connection, number, source, told(number, ((8, "ok", None, True),), 1))
        kept = connection.execute("SELECT import_id FROM fact_scheduler_node ORDER BY ALL").fetchall()
    assert [number for (number,) in kept] == ["0", "1", "2", "5"]


def test_the_last_of_what_stands_goes_with_the_answer_that_no_longer_names_it() -> None:
    with ledger() as connection:
        for number, source in enumerate((LIVE, FILE)):
            follow(connection, number, source, told(number, ((8, "ok", None, True),), 1))
        prune(connection, LIVE, "0", asked=at(0))
        assert fact_store.read(connection, ACTIVE)["quota_limit"].height == 1
        prune(connection, LIVE, "0", asked=at(2))
        left = connection.execute("SELECT import_id FROM fact_quota_limit").fetchall()
    assert left == [("1",)]  # another source's answer stands
