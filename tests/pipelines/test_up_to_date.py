"""A ledger that is brought up to date is, to the last bit, the one that is made anew from everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from pipelines import import_log
from pipelines.config import Config, Source, load
from pipelines.ingest import ingest
from pipelines.ledger import Ledger, open_ledger
from pipelines.metering import Metered, meter_again
from tests.pipelines.long_scenes import LongScene, long_scene
from tests.pipelines.stages import AS_OF, Stages

Piece = tuple[str, Path]


def brought_up(config: Config, steps: Iterable[Sequence[Piece]]) -> tuple[Metered, list[bool]]:
    """Import pieces step by step, with a pass after each; the last pass's stages, and which passes remembered."""
    remembered = []
    with open_ledger(config.ledger, "a test") as ledger:
        for pieces in steps:
            for kind, path in pieces:
                ingest(ledger, [_source(config, kind, path)], config, configured=False, now=AS_OF)
            remembered.append(_pass(ledger, config))
        metered = ledger.metered()
        assert metered is not None
        return metered, remembered


def _pass(ledger: Ledger, config: Config) -> bool:
    memory = ledger.memory(config.config_hash)
    metered, remade = meter_again(ledger.inputs(), config, window=None, memory=memory)
    ledger.store_metered(
        metered,
        remade,
        made_from="a test",
        made_by=config.config_hash,
        at=AS_OF,
        findings=[*ledger.findings(), *metered.findings],
    )
    return memory is not None


def _source(config: Config, kind: str, path: Path) -> Source:
    named = {"cluster": "hall"} if kind in ("metrics", "sacct") else {}
    return Source.model_validate({kind: str(path), **named}, context={"path": config.path, "zone": config.timezone})


def report_of(config: Config, metered: Metered) -> dict[str, Any]:
    assert metered.span is not None
    return Stages(config, metered, metered.span).report()


def assert_alike(found: Metered, expected: Metered, config: Config) -> None:
    assert_frame_equal(found.usage, expected.usage, check_exact=True)
    assert_frame_equal(found.leases, expected.leases, check_exact=True)
    assert_frame_equal(found.outages, expected.outages, check_exact=True)
    assert found.findings == expected.findings
    assert found.span == expected.span
    for name in {*expected.state} - {import_log.TABLE}:  # which says how things came, not what they come to
        rows = expected.state[name]
        assert_frame_equal(found.state[name], rows, check_exact=True)
    assert report_of(config, found) == report_of(config, expected)


def compared(scene: LongScene, folder: Path, *, order: Random | None = None) -> None:
    whole = load(scene.configured(folder / "whole") / "gpuledger.yaml")
    config = load(scene.configured(folder / "steps") / "gpuledger.yaml")
    pieces = scene.pieces(folder)
    expected, _ = brought_up(whole, [pieces])
    if order is not None:
        order.shuffle(pieces)
    found, remembered = brought_up(config, [[piece] for piece in pieces])
    assert remembered == [False, *[True] * (len(pieces) - 1)]
    assert_alike(found, expected, config)


@pytest.mark.parametrize("seed", range(4))
def test_day_by_day_it_is_what_it_is_at_once(seed: int, tmp_path: Path) -> None:
    compared(long_scene(seed), tmp_path)


@pytest.mark.parametrize("seed", range(100, 102))
def test_in_any_order_it_is_what_it_is_at_once(seed: int, tmp_path: Path) -> None:
    compared(long_scene(seed), tmp_path, order=Random(seed))
