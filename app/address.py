"""What is chosen on a page stands in its address, by id: every view is a link, and a link opens its view.

Streamlit's own binding writes the labels that people see into the address; labels change and aren't unique.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

NARROW: Final = 171
WIDE: Final = 358
"""Pixels: on a telephone, one wide or two narrow controls fill a row."""
_REFUSED: Final = "refused in the address"
_PAGE, _TURNED = "page shown", "page turned"


def select(
    label: str, key: str, options: Sequence[str], default: str, name: Callable[[str], str], *, width: int = NARROW
) -> str:
    """Draw a select box whose choice is `key` in the address; what isn't an option there is ignored."""
    arrived(key, options, default)
    chosen = st.selectbox(label, options, format_func=name, key=key, width=width)
    written(key, chosen, default)
    return chosen


def segments(label: str, key: str, options: Sequence[str], default: str, name: Callable[[str], str]) -> str:
    """Draw a row of buttons whose choice is `key` in the address."""
    arrived(key, options, default)
    chosen = st.segmented_control(label, options, format_func=name, key=key, required=True) or default
    written(key, chosen, default)
    return chosen


def arrived(key: str, options: Sequence[str], default: str) -> None:
    """Take over a choice that the address brings; else keep the one made before, where it still is an option."""
    if left(key):
        st.session_state[key] = default
        return
    given = brought(key)
    if given in options:
        st.session_state[key] = given
        return
    if given is not None:
        refused(key)
    if st.session_state.get(key) not in options:
        st.session_state[key] = default


def brought(key: str) -> str | None:
    """Return what the address says, where it says something new."""
    given = st.query_params.get(key)
    return None if given == st.session_state.get(_last(key)) else given


def left(key: str) -> bool:
    """Whether the address names a choice no more, as it does where people go back to the view before they chose.

    Another page's address comes without what was chosen, which is kept from page to page.
    """
    return (
        key not in st.query_params
        and st.session_state.get(_last(key)) is not None
        and not st.session_state.get(_TURNED, False)
    )


def on_page(path: str) -> None:
    """Remember whether this run shows another page than the last one."""
    st.session_state[_TURNED] = st.session_state.get(_PAGE) != path
    st.session_state[_PAGE] = path


def refused(key: str) -> None:
    """Remember that the address asks for something that isn't there."""
    st.session_state.setdefault(_REFUSED, []).append(key)


def refusals() -> list[str]:
    """Return what the address asked for in vain since this was last asked, by its names there."""
    found: list[str] = st.session_state.pop(_REFUSED, [])
    return found


def written(key: str, chosen: str, default: str) -> None:
    """Write a choice into the address; the default needs no mention."""
    st.session_state[_last(key)] = chosen if chosen != default else None
    if chosen != default:
        st.query_params[key] = chosen
    elif key in st.query_params:
        del st.query_params[key]


def _last(key: str) -> str:
    return f"{key} in the address"
