from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from exporter.catalog import CATALOG
from exporter.families import OWN_METRICS
from exporter.fleet_file import _FAULT, _GPU, _KINDS
from exporter.main import OWNERS, add_arguments
from exporter.reference import fill
from exporter.snapshot import Snapshot

DOCUMENT = (Path(__file__).parents[2] / "docs/exporter.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_catalogue() -> None:
    assert fill(DOCUMENT) == DOCUMENT


def test_every_metric_is_documented() -> None:
    documented = set(re.findall(r"`(gpuledger_\w+)`", DOCUMENT))
    assert {metric.name for metric in CATALOG} <= documented
    assert {f"gpuledger_{key}" for key in OWN_METRICS} <= documented


def test_every_metric_that_the_document_names_exists() -> None:
    known = {metric.name for metric in CATALOG} | {f"gpuledger_{key}" for key in OWN_METRICS}
    assert set(re.findall(r"\b(gpuledger_[a-z0-9_]+)", DOCUMENT)) - known == set()


def test_every_key_of_a_fleet_file_is_documented() -> None:
    section = DOCUMENT.split("## Without a GPU")[1]
    assert [key for key in (*_GPU.keys, *_FAULT.keys, *_KINDS) if key not in section] == []


def test_every_owner_source_is_documented() -> None:
    assert [name for name in OWNERS if f"| `{name}` |" not in DOCUMENT] == []


def test_options_that_the_document_names_exist() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    assert set(re.findall(r"(?<!squeue )(?<!nvidia-smi )(--[a-z][a-z-]+)", DOCUMENT)) - known == set()


def test_a_document_without_a_place_for_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="device metrics"):
        fill("# Exporter\n")


def test_states_are_documented() -> None:
    assert Snapshot.__doc__
    assert all(word in DOCUMENT for word in ("lost", "missing"))
