"""The command line: one clear line for what is wrong, and stdout for the answer alone."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.errors import ConfigError, LedgerBusy
from gpuledger import cli

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Make `gpuledger check` do what is given."""

    def put(work: Callable[[], int]) -> None:
        module = types.SimpleNamespace(configure=lambda _parser: None, run=lambda _arguments: work())
        monkeypatch.setitem(sys.modules, "gpuledger.commands.check", module)

    return put


def fails_with(error: BaseException) -> Callable[[], int]:
    def work() -> int:
        raise error

    return work


def test_every_command_has_help_with_an_example(capsys: Capture) -> None:
    for name in cli.COMMANDS:
        assert cli.main([name, "--help"]) == 0
        out, err = capsys.readouterr()
        assert f"usage: gpuledger {name}" in out
        assert f"  gpuledger {name} " in out or f"  gpuledger {name}\n" in out.partition("example")[2]
        assert "--config FILE" in out
        assert err == ""


def test_the_version_is_the_installed_one(capsys: Capture) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("gpuledger 0.")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["repot"], "gpuledger: there is no command 'repot'; did you mean 'report'?; see `gpuledger --help`"),
        (["xyz"], "gpuledger: there is no command 'xyz'; see `gpuledger --help`"),
        (["replay"], "gpuledger replay: the following arguments are required: DIR; see `gpuledger replay --help`"),
        (["check", "--jsn"], "gpuledger: unrecognized arguments: --jsn; see `gpuledger --help`"),
        (["--config"], "gpuledger: argument --config: expected one argument; see `gpuledger --help`"),
        (
            ["report", "--period", "2026-11", "--from", "2026-11-01"],
            "gpuledger: --period and --from/--to name",
        ),
    ],
)
def test_bad_usage_is_one_line_and_status_2(argv: list[str], said: str, capsys: Capture) -> None:
    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said)
    assert err.count("\n") == 1


def test_no_command_shows_what_there_is_and_is_bad_usage(capsys: Capture) -> None:
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "replay" in err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ConfigError("a.yaml: rates", "empty", "add one"), 2, "gpuledger: a.yaml: rates: empty; add one\n"),
        (LedgerBusy("l.duckdb", "process 7"), 1, "gpuledger: l.duckdb: held by process 7; wait for it to finish"),
        (PermissionError(13, "Permission denied", "/var/lib/x"), 1, "gpuledger: /var/lib/x: Permission denied\n"),
        (
            ModuleNotFoundError("No module", name="streamlit.web"),
            1,
            "gpuledger: this needs the Python module 'streamlit'",
        ),
        (ValueError("two\nlines"), 1, "gpuledger: unexpected ValueError: two lines; this is a fault of GPULedger"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_one_line_and_never_a_traceback(
    error: BaseException, status: int, said: str, behave: Callable[[Callable[[], int]], None], capsys: Capture
) -> None:
    behave(fails_with(error))
    assert cli.main(["check"]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(said)
    assert err.count("\n") == (1 if said else 0)


def test_a_traceback_is_shown_when_asked_for(
    behave: Callable[[Callable[[], int]], None], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("GPULEDGER_DEBUG", "1")
    behave(fails_with(ValueError("odd")))
    assert cli.main(["check"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    command = f"{sys.executable} -m gpuledger --help | true; echo ${{PIPESTATUS[0]}} >&2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr


@pytest.mark.parametrize(
    ("argv", "variable", "expected"),
    [
        ([], None, "gpuledger.yaml"),
        ([], "env.yaml", "env.yaml"),
        (["--config", "given.yaml"], "env.yaml", "given.yaml"),
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after the command"])
def test_the_configuration_is_the_given_one_else_the_variables_else_here(
    argv: list[str],
    variable: str | None,
    expected: str,
    *,
    before: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    if variable:
        monkeypatch.setenv("GPULEDGER_CONFIG", variable)
    assert cli.main([*argv, "check"] if before else ["check", *argv]) == 2
    assert capsys.readouterr().err.startswith(f"gpuledger: {expected}: no such file; ")


def test_check_says_what_a_right_configuration_holds(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "gpuledger.yaml"
    file.write_text('currency: USD\nrates:\n  - {model: "*", on_demand: "2.50"}\n')
    assert cli.main(["check", "--config", str(file)]) == 0
    assert capsys.readouterr() == (f"{file}: right: 0 sources, 0 tenants, 1 rate, 0 reservations; USD, UTC\n", "")


def test_help_loads_no_wing_but_the_errors() -> None:
    code = (
        "import json, sys; from gpuledger.cli import main\n"
        "try: main(['--help'])\nfinally: print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr))
    wings = {
        name for name in loaded if name.partition(".")[0] in ("app", "dashboards", "alerts", "pipelines", "exporter")
    }
    assert wings == {"exporter", "exporter.errors"}
    assert not loaded & {"polars", "duckdb", "pydantic", "streamlit", "prometheus_client"}


def test_the_public_names_are_loaded_when_used() -> None:
    code = (
        "import sys, gpuledger; before = 'pipelines' in sys.modules\n"
        "gpuledger.load_config; print(before, 'pipelines.config' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_every_public_name_is_there() -> None:
    import gpuledger

    missing = [name for name in gpuledger.__all__ if not hasattr(gpuledger, name)]
    assert missing == []
    assert set(gpuledger.__all__) <= set(dir(gpuledger))


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help otherwise: run with Python 3.11")
def test_the_command_table_is_documented(repository: Path) -> None:
    from gpuledger.reference import render

    assert (repository / "docs" / "commands.md").read_text(encoding="utf-8") == render(), "run scripts/document"


def test_a_parser_for_one_command_leaves_the_others_unloaded() -> None:
    parser = cli.build_parser(load=["check"])
    assert isinstance(parser, argparse.ArgumentParser)
    assert parser.parse_args(["check"]).command == "check"
    assert os.environ.get("GPULEDGER_CONFIG") is None
