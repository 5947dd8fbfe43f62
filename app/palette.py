"""What each colour means, everywhere: one colour per state of a GPU-hour, told apart by colour-blind readers too.

Hues are those of Okabe and Ito (2008), "Color Universal Design".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import altair as alt


@dataclass(frozen=True)
class State:
    """Where GPU-hours can be.

    Attributes:
        key: as in app.usage; label: for people; colour: its own.
    """

    key: str
    label: str
    colour: str


BUSY: Final = State("busy", "Held, busy", "#0072B2")
QUIET: Final = State("quiet", "Held, not busy", "#7FBDE4")
UNSEEN: Final = State("unseen", "Held, not observed", "#C3CBD3")
IDLE: Final = State("idle", "Idle", "#E69F00")
STRANDED: Final = State("stranded", "Stranded", "#CC79A7")
DOWN: Final = State("down", "Down", "#D55E00")
UNKNOWN: Final = State("unobserved", "Unobserved", "#8A929B")

STATES: Final = (BUSY, QUIET, UNSEEN, IDLE, STRANDED, DOWN, UNKNOWN)

SERIES: Final = ("#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#D55E00", "#8C7A00", "#6A51A3")
"""Colours of things that have no fixed one, such as tenants, in order."""

OTHER: Final = "#A9B1B9"
INK: Final = "#1B232B"
INK_ON_DARK: Final = "#E6EBF0"


def state_colours(states: tuple[State, ...] = STATES) -> alt.Scale:
    """Return the scale from a state's label to its colour."""
    return alt.Scale(domain=[s.label for s in states], range=[s.colour for s in states])


def series_colours(names: list[str], *, other: str | None = None) -> dict[str, str]:
    """Return a colour for each name in its order; `other` stands for the rest."""
    return {name: OTHER if name == other else SERIES[n % len(SERIES)] for n, name in enumerate(names)}
