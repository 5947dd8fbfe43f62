"""Memory that is kept for what is made next."""

from __future__ import annotations

import pytest

from pipelines import allocation


class Recorded:
    """A C library that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.told.append((f"option {option}", value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.told.append(("trim", pad))
        return 1


def test_what_was_set_is_set_back_and_free_memory_goes_even_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = Recorded()
    monkeypatch.setattr(allocation, "_glibc", lambda: libc)
    with pytest.raises(ZeroDivisionError):
        _fail_inside(libc)
    assert libc.told[2:] == [("option -3", 128 << 10), ("option -1", 128 << 10), ("trim", 0)]


def _fail_inside(libc: Recorded) -> None:
    with allocation.reused():
        assert libc.told == [("option -3", 32 << 20), ("option -1", 1 << 30)]
        raise ZeroDivisionError


def test_without_glibc_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "_glibc", lambda: None)
    with allocation.reused():
        pass


def test_this_library_takes_it() -> None:
    with allocation.reused(), allocation.reused():
        assert len(bytes(64 << 20)) == 64 << 20
