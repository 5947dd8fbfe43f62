"""Generated files: written on `build`, compared on `check`, and never anyone else's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.errors import WorkError
from gpuledger import cli, generated

Capture = pytest.CaptureFixture[str]


def build(out: Path) -> Sequence[Path]:
    paths = [out / "a.yml", out / "deep" / "b.json"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    return paths


def test_what_was_built_is_right(tmp_path: Path, capsys: Capture) -> None:
    generated.write(build, tmp_path)
    (tmp_path / "own.yml").write_text("a user's")
    generated.verify(build, tmp_path, again="make")
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path}: 2 files, all as the configuration makes them"


def test_a_changed_or_missing_file_is_named_with_the_mend(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "a.yml").write_text("changed by hand")
    with pytest.raises(WorkError, match=r"a\.yml: differs from .*; run `make`"):
        generated.verify(build, tmp_path, again="make")
    (tmp_path / "a.yml").unlink()
    (tmp_path / "deep" / "b.json").unlink()
    with pytest.raises(WorkError, match=r"a\.yml: is missing from .* \(and 1 more\)"):
        generated.verify(build, tmp_path, again="make")


@pytest.mark.parametrize("wing", ["dashboards", "alerts"])
def test_a_build_passes_its_check_and_a_change_of_the_configuration_fails_it(
    wing: str, tmp_path: Path, capsys: Capture
) -> None:
    config = tmp_path / "gpuledger.yaml"
    config.write_text('currency: USD\nrates:\n  - {model: "*", on_demand: "2.50"}\n')
    common = ["--config", str(config), "--out", str(tmp_path / "out")]
    assert cli.main([wing, "build", *common]) == 0
    assert cli.main([wing, "check", *common]) == 0
    capsys.readouterr()
    config.write_text('currency: EUR\nrates:\n  - {model: "*", on_demand: "2.50"}\n')
    assert cli.main([wing, "check", *common]) == 1
    assert f"run `gpuledger {wing} build --out " in capsys.readouterr().err


@pytest.mark.needs_program("promtool")
def test_rules_that_prometheus_cannot_read_are_refused(tmp_path: Path) -> None:
    rules = tmp_path / "bad.rules.yml"
    rules.write_text('groups: [{name: g, rules: [{record: r, expr: "sum("}]}]')
    with pytest.raises(WorkError, match="promtool refuses the rules"):
        generated.promtool_check([rules])


OWN_RULE = """\
groups:
  - name: own
    rules:
      - {record: own:total, expr: 'sum(gpuledger_no_such_metric)'}
"""


def test_a_users_own_rules_are_linted(tmp_path: Path, capsys: Capture) -> None:
    config, rules = tmp_path / "gpuledger.yaml", tmp_path / "own.rules.yml"
    config.write_text("currency: USD\n")
    rules.write_text(OWN_RULE)
    assert cli.main(["alerts", "check", str(rules), "--config", str(config)]) == 1
    out, err = capsys.readouterr()
    assert "gpuledger_no_such_metric" in out
    assert err == "gpuledger: 1 fault found; mend what is listed\n"
