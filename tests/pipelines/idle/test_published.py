"""What readers open of idle capacity: the list of `gpuledger idle`, to the cent, and for a tenant its own alone."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from gpuledger import cli
from pipelines import store
from pipelines.instants import to_ms
from pipelines.publish import FOLDER, current
from tests.pipelines.folders import after_a_run
from tests.pipelines.scene import START, Listed, Scene, at, seen

TENANTS: Final = [
    {"id": "astro", "match": [{"namespace": "astro*", "to": at(180)}, {"namespace": "lab"}]},
    {"id": "bio", "match": [{"namespace": "bio*"}, {"namespace": "astro*", "from": at(180)}]},
]
SCENE: Final = Scene(
    [
        seen("GPU-a", (0, 240), "astro/sleeper", engine=0.0, util=0),
        seen("GPU-b", (0, 240), "bio/neighbour", engine=0.9),
        seen("GPU-c", (0, 240), engine=0.0, util=0),
    ],
    inventory=[Listed(device=f"GPU-{n}", owner="astro") for n in "abc"],
    config={"tenants": TENANTS},
)


def rows(folder: Path, tenant: str | None = None) -> list[dict[str, Any]]:
    publication = current(folder / "ledger")
    assert publication is not None
    file = publication.fleet if tenant is None else publication.tenants[tenant]
    with store.opened(folder / "ledger" / FOLDER / file, read_only=True) as connection:
        found: list[dict[str, Any]] = connection.sql("SELECT * FROM reclaim").pl().to_dicts()
    return found


def test_the_published_list_is_that_of_the_command(tmp_path: Path, capsys: Any) -> None:
    config = after_a_run(SCENE, tmp_path)
    assert cli.main(["idle", "--config", str(config.path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["reclaim"]
    published = rows(tmp_path)
    assert [(r["cause"], r["subject"], r["tenant"], r["gpu_hours"], r["worth"]) for r in published] == [
        (i["cause"], i["subject"], i["owner"], i["gpu_hours"], None if i["worth"] is None else Decimal(i["worth"]))
        for i in told
    ]
    assert {r["cause"] for r in published} == {"held_idle", "fragmented"}
    assert {r["period"] for r in published} == {"2026-03"}


def test_a_tenant_sees_what_is_its_own_and_no_name_of_its_neighbours(tmp_path: Path) -> None:
    after_a_run(SCENE, tmp_path)
    astro, bio = rows(tmp_path, "astro"), rows(tmp_path, "bio")
    assert {(r["cause"], r["subject"]) for r in astro} == {("held_idle", "astro/sleeper"), ("fragmented", "rack1")}
    assert [(r["cause"], r["subject"]) for r in bio] == [("held_idle", "astro/sleeper")]
    assert "neighbour" not in str(astro)
    assert "bio/neighbour" in str(rows(tmp_path))


def test_each_tenant_has_the_idle_time_that_it_paid_for(tmp_path: Path) -> None:
    after_a_run(SCENE, tmp_path)
    (mine,) = [r for r in rows(tmp_path, "astro") if r["cause"] == "held_idle"]
    (theirs,) = rows(tmp_path, "bio")
    assert (mine["since"], theirs["since"]) == (None, to_ms(START) + 180 * 60_000)
    assert round(mine["gpu_hours"] / theirs["gpu_hours"]) == 3
