"""What readers open: whole files that never change, a pointer moved last, and for a tenant nothing of another's."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duckdb
import pytest
from hypothesis import Phase, given, settings

from exporter.errors import LedgerError
from pipelines.config import Config, load
from pipelines.operations import report, run_once
from pipelines.publish import FOLDER, POINTER, current, publish, published_fleet
from tests.pipelines.folders import after_a_run, configured, table, told
from tests.pipelines.random_scenes import scenes
from tests.pipelines.scene import Listed, Scene, at, seen

TENANTS: Final = [
    {"id": "astro", "name": "Astronomy", "match": [{"namespace": "astro*"}], "quota": {"gpus": 1}},
    {"id": "bio", "name": "Biology", "match": [{"namespace": "bio*"}], "budget": {"monthly": "10.00"}},
    {"id": "chem", "name": "Chemistry", "match": [{"namespace": "chem*"}]},
]
SHARED: Final = Scene(
    [
        seen("GPU-a", (0, 60), "astro/orbit", uid="u-orbit"),
        seen("GPU-a", (0, 60), "bio/fold", uid="u-fold"),
        seen("GPU-b", (0, 60), "bio/dock", uid="u-dock"),
        seen("GPU-c", (0, 60), "stray/lost", uid="u-lost"),
        seen("GPU-d", (0, 60), util=0),
    ],
    inventory=[Listed(device=f"GPU-{n}", owner="bio") for n in "abcd"],
    config={"tenants": TENANTS, "idle": {"policy": "proportional"}},
)
SECRETS: Final = {
    "astro": ("orbit", "Astronomy", "u-orbit"),
    "bio": ("fold", "dock", "Biology", "u-fold", "u-dock"),
    "nobody": ("stray", "lost", "u-lost"),
}


def published(config: Config, tenant: str) -> Path:
    publication = current(config.ledger)
    assert publication is not None
    return config.ledger / FOLDER / publication.tenants[tenant]


def everything_in(path: Path) -> dict[str, list[dict[str, Any]]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: connection.sql(f"SELECT * FROM {name}").pl().to_dicts() for name in names}


@pytest.mark.parametrize("tenant", ["astro", "bio"])
def test_a_tenants_file_names_no_other_tenant_workload_or_lease(tenant: str, tmp_path: Path) -> None:
    config = after_a_run(SHARED, tmp_path)
    fleet = table(config.ledger / "ledger.duckdb", "lease")
    path = published(config, tenant)
    own = {row["id"] for row in everything_in(path)["lease"]}
    words = [word for other, secrets in SECRETS.items() if other != tenant for word in (other, *secrets)]
    foreign = [*words, *(row[0] for row in fleet if row[0] not in own)]
    text, raw = json.dumps(everything_in(path), default=str), path.read_bytes()
    for word in foreign:
        assert word not in text
        assert word.encode() not in raw
    assert own
    assert all(secret in text for secret in SECRETS[tenant])


def test_a_tenant_without_rows_has_no_file(tmp_path: Path) -> None:
    publication = current(after_a_run(SHARED, tmp_path).ledger)
    assert publication is not None
    assert sorted(publication.tenants) == ["astro", "bio"]


def test_a_lease_that_changes_tenant_is_seen_by_each_for_its_own_time(tmp_path: Path) -> None:
    tenants = [
        {"id": "astro", "match": [{"namespace": "lab", "to": at(15)}]},
        {"id": "bio", "match": [{"namespace": "lab", "from": at(15)}]},
    ]
    config = after_a_run(Scene([seen("GPU-a", (0, 60), "lab/fit")], config={"tenants": tenants}), tmp_path)
    for tenant, minutes in (("astro", 15), ("bio", 45)):
        tables = everything_in(published(config, tenant))
        assert sum(row["end"] - row["start"] for row in tables["usage"]) == minutes * 60_000
        assert sum(row["end"] - row["start"] for row in tables["lease"]) == minutes * 60_000


@settings(max_examples=6, phases=(Phase.explicit, Phase.generate))
@given(scenes())
def test_what_is_published_for_tenants_is_the_fleets_and_theirs_alone(scene: Scene) -> None:
    with TemporaryDirectory() as folder:
        config = after_a_run(scene, Path(folder))
        publication = current(config.ledger)
        assert publication is not None
        paid: dict[str, Decimal] = {}
        for tenant in publication.tenants:
            tables = everything_in(published(config, tenant))
            assert {row["tenant"] for row in tables["charge"]} <= {tenant}
            assert {row["tenant"] for row in tables["tenant_period"]} == {tenant}
            assert {row["owner"] for row in tables["usage"]} <= {tenant, None}
            assert {row["lease"] for row in tables["usage"]} <= {row["id"] for row in tables["lease"]}
            paid[tenant] = sum((row["total"] for row in tables["tenant_period"]), Decimal(0))
        fleet = everything_in(config.ledger / FOLDER / publication.fleet)
        assert sum((row["billed"] for row in fleet["fleet_period"]), Decimal(0)) == sum(paid.values())


def test_prices_of_many_digits_are_published(tmp_path: Path) -> None:
    rates = [{"model": "*", "on_demand": "100.0000000001"}]
    config = after_a_run(Scene([seen("GPU-a", (0, 60), "astro/fit")], config={"rates": rates}), tmp_path)
    (charge,) = everything_in(published(config, "astro"))["charge"]
    assert charge["rate"] == Decimal("100.0000000001")


def test_the_published_report_is_that_of_a_replay(tmp_path: Path) -> None:
    from pipelines.operations import replay

    config = after_a_run(SHARED, tmp_path)
    replayed = json.loads(replay(tmp_path).to_json())
    replayed.pop("as_of")
    assert told(config) == replayed


def test_a_published_file_is_never_changed_and_stays_for_readers_of_the_last_pointer(tmp_path: Path) -> None:
    config = after_a_run(SHARED, tmp_path)
    before = current(config.ledger)
    assert before is not None
    files = {name: (config.ledger / FOLDER / name).read_bytes() for name in (before.fleet, *before.tenants.values())}
    more = Scene(
        [*SHARED.series, seen("GPU-e", (0, 60), "astro/more")], inventory=SHARED.inventory, config=SHARED.config
    )
    run_once(configured(more, tmp_path))
    after = current(config.ledger)
    assert after is not None
    assert (after.sequence, after.fleet) == (before.sequence + 1, "fleet-2.duckdb")
    for name, content in files.items():
        assert (config.ledger / FOLDER / name).read_bytes() == content


READS: Final = """
import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True) as connection:
    for _ in sys.stdin:
        print(connection.execute("SELECT count(*) FROM usage").fetchone()[0], flush=True)
"""


def test_old_snapshots_go_once_nobody_reads_them(tmp_path: Path) -> None:
    config = after_a_run(SHARED, tmp_path)
    folder, (metered, as_of) = config.ledger / FOLDER, published_fleet(config.ledger)

    def publish_again() -> set[str]:
        publish(config, metered, made_from="a test", as_of=as_of)
        return {path.name for path in folder.glob("fleet-*.duckdb")}

    command = [sys.executable, "-c", READS, str(folder / "fleet-1.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        print("how many?", file=reader.stdin)
        before = int(reader.stdout.readline())
        assert before > 0
        assert publish_again() == {"fleet-1.duckdb", "fleet-2.duckdb"}
        assert publish_again() == {"fleet-1.duckdb", "fleet-2.duckdb", "fleet-3.duckdb"}
        assert publish_again() == {"fleet-1.duckdb", "fleet-3.duckdb", "fleet-4.duckdb"}
        print("and now?", file=reader.stdin)
        assert int(reader.stdout.readline()) == before
    assert publish_again() == {"fleet-4.duckdb", "fleet-5.duckdb"}
    assert (folder / published(config, "astro").name).is_file()


def test_only_tenants_that_changed_are_published_again(tmp_path: Path) -> None:
    scene = Scene(SHARED.series, config={"tenants": TENANTS})
    before = current(after_a_run(scene, tmp_path).ledger)
    more = Scene([*SHARED.series, seen("GPU-e", (0, 60), "astro/more")], config={"tenants": TENANTS})
    config = configured(more, tmp_path)
    run_once(config)
    after = current(config.ledger)
    assert before is not None
    assert after is not None
    assert before.tenants["astro"] != after.tenants["astro"]
    assert before.tenants["bio"] == after.tenants["bio"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sequence": 1}', '{"sequence": 1, "as_of": "yesterday"}'])
def test_a_damaged_pointer_is_named_and_the_next_run_mends_it(content: str, tmp_path: Path) -> None:
    config = after_a_run(SHARED, tmp_path)
    before = told(config)
    pointer = config.ledger / FOLDER / POINTER
    pointer.write_text(content)
    with pytest.raises(LedgerError, match="run `gpuledger run --once`") as told_to:
        report(config)
    assert str(pointer) in str(told_to.value)
    run_once(config)
    assert told(config) == before
    publication = current(config.ledger)
    assert publication is not None
    assert publication.fleet == "fleet-2.duckdb", "a name that was published is never used again"


def test_a_pointer_to_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    config = after_a_run(SHARED, tmp_path)
    (config.ledger / FOLDER / "fleet-1.duckdb").unlink()
    with pytest.raises(LedgerError, match=r"fleet-1\.duckdb"):
        report(config)


def test_nothing_published_yet_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="nothing is published yet; run `gpuledger run --once`"):
        report(configured(SHARED, tmp_path))


def test_a_months_report_is_published_for_each_local_month(tmp_path: Path) -> None:
    scene = Scene(
        [seen("GPU-a", (0, 600), "astro/fit", every=5)],
        config={"timezone": "Europe/Berlin"},
        start=datetime(2026, 2, 28, 20, tzinfo=UTC),
    )
    config = load(scene.write(tmp_path) / "gpuledger.yaml")
    run_once(config)
    rows = everything_in(published(config, "astro"))["tenant_period"]
    assert {row["period"]: row["allocated_gpu_hours"] for row in rows} == {"2026-02": 3, "2026-03": 7}
