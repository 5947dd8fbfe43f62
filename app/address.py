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
_CHANGED: Final = "changes of the address"


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


def value(key: str) -> str | None:
    """Return what the address says, or what this run will make it say."""
    changed: dict[str, str | None] = st.session_state.get(_CHANGED, {})
    return changed[key] if key in changed else st.query_params.get(key)


def put(key: str, said: str | None) -> None:
    """Let the address say something else from the end of this run on; None: nothing."""
    st.session_state.setdefault(_CHANGED, {})[key] = said


def take(key: str) -> str | None:
    """Return what the address says, and let it say so no more."""
    said = value(key)
    if said is not None:
        put(key, None)
    return said


def settle() -> None:
    """Change the address, all at once: browsers go back by one step for each time that it changes."""
    changed: dict[str, str | None] = st.session_state.pop(_CHANGED, {})
    before = st.query_params.to_dict()
    after = {key: said for key, said in {**before, **changed}.items() if said is not None}
    if after != before:
        st.query_params.from_dict(after)


def arrived(key: str, options: Sequence[str], default: str) -> None:
    """Take over a choice that the address brings; else keep the one made before, where it still is an option."""
    usual = st.session_state.get(_usual(key), default)
    if left(key) or st.session_state.get(key) == usual != default:  # what nobody chose follows what is usual
        st.session_state[key] = default
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
    given = value(key)
    return None if given == st.session_state.get(_last(key)) else given


def left(key: str) -> bool:
    """Whether the address names a choice no more, as it does where people go back to the view before they chose.

    Another page's address comes without what was chosen, which is kept from page to page.
    """
    return (
        value(key) is None and st.session_state.get(_last(key)) is not None and not st.session_state.get(_TURNED, False)
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
    said = chosen if chosen != default else None
    st.session_state[_last(key)], st.session_state[_usual(key)] = said, default
    if value(key) != said:
        put(key, said)


def _usual(key: str) -> str:
    return f"{key} where none is chosen"


def _last(key: str) -> str:
    return f"{key} in the address"
