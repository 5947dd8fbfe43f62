"""``gpuledger idle`` from the configured ledger."""

from __future__ import annotations

import json

import pytest

from gpuledger import cli
from tests.pipelines.scene import Scene, seen

Capture = pytest.CaptureFixture[str]

BUSY = {"engine": 0.9, "util": 90}
QUIET = {"engine": 0.0, "util": 0}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A node with a busy, an idle and two free GPUs, run into a ledger."""
    scene = Scene(
        [
            seen("GPU-0", (0, 180), "astro/a", **BUSY),
            seen("GPU-1", (0, 180), "astro/\x1b[31mb", **QUIET),
            *(seen(f"GPU-{n}", (0, 180), **QUIET) for n in (2, 3)),
        ]
    )
    config = scene.write(tmp_path_factory.mktemp("idle")) / "gpuledger.yaml"
    assert cli.main(["run", "--once", "--config", str(config)]) == 0
    return str(config)


def test_json_adds_up_to_the_report(ledger: str, capsys: Capture) -> None:
    assert cli.main(["report", "--config", ledger, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert cli.main(["idle", "--config", ledger, "--json"]) == 0
    idle = json.loads(capsys.readouterr().out)
    hours = {cause["cause"]: cause["gpu_hours"] for cause in idle["causes"]}
    free = hours["unallocated"] + hours["fragmented"] + hours["reserved_unused"]
    assert free == pytest.approx(report["fleet"]["idle_gpu_hours"])
    assert hours["fragmented"] == pytest.approx(6.0)
    (held,) = [item for item in idle["reclaim"] if item["cause"] == "held_idle"]
    assert held["worth"] == "9.00"
    assert held["since"] == "2026-03-02T09:00:00Z"
    assert [p["policy"] for p in idle["policies"]] == ["idle-1h", "idle-1h45", "idle-2h"]


def test_for_people(ledger: str, capsys: Capture) -> None:
    assert cli.main(["idle", "--config", ledger]) == 0
    out = capsys.readouterr().out
    assert "Held and idle" in out
    assert "Stranded by fragmentation" in out
    assert "\x1b" not in out


def test_what_is_left_out_is_counted(ledger: str, capsys: Capture) -> None:
    assert cli.main(["idle", "--config", ledger, "--limit", "1"]) == 0
    out = capsys.readouterr().out
    owners = out.partition("By owner")[2].partition("Reclaim first")[0]
    assert "and 1 more; --json has all" in owners


def test_a_notice_is_text_to_mail(ledger: str, capsys: Capture) -> None:
    assert cli.main(["idle", "--config", ledger, "--notice", "astro"]) == 0
    text = capsys.readouterr().out
    assert "Held and idle" in text
    assert "Stranded" not in text
    assert cli.main(["idle", "--config", ledger, "--notice", "astro", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] + "\n" == text


def test_an_unknown_tenant_is_one_line(ledger: str, capsys: Capture) -> None:
    assert cli.main(["idle", "--config", ledger, "--notice", "nobody"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
