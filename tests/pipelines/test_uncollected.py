"""The collector is paused for the work alone."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipelines.uncollected import uncollected


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    gc.enable()


@uncollected()
def paused() -> bool:
    return not gc.isenabled()


def test_it_is_paused_within_and_goes_on_after() -> None:
    assert paused()
    assert gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(ValueError, match="told"), uncollected():
        raise ValueError("told")
    assert gc.isenabled()


def test_within_another_pause_it_ends_with_the_outer_one() -> None:
    with uncollected():
        assert paused()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_runs_without_a_collector_keeps_to_it() -> None:
    gc.disable()
    assert paused()
    assert not gc.isenabled()
