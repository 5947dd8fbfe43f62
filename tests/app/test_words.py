"""How things are said."""

from __future__ import annotations

import pytest

from app import words


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "n/a"), (0.0, "0.0"), (4351.75, "4,351.8"), (4351.25, "4,351.3"), (0.04, "0.0"), (-2.25, "-2.3")],
)
def test_halves_of_hours_go_up_as_in_a_browser(value: float | None, said: str) -> None:
    assert words.hours(value) == said


@pytest.mark.parametrize(("number", "said"), [(0, "0 leases"), (1, "1 lease"), (1200, "1,200 leases")])
def test_things_are_counted(number: int, said: str) -> None:
    assert words.counted(number, "lease") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing is there; run `gpuledger run --once`", "Nothing is there; run `gpuledger run --once`\\."),
        ("ann@example.org: no grant matches", "ann\\@example\\.org\\: no grant matches\\."),
        ("a name with one ` and <b>", "A name with one \\` and \\<b\\>\\."),
        ("is it so?", "Is it so?"),
    ],
)
def test_a_message_is_a_sentence_in_which_only_commands_are_code(text: str, said: str) -> None:
    assert words.sentence(text) == said
