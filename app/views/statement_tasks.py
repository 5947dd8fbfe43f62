"""All statements of a month at once: made in the background, with progress, a way to stop, and what was made before."""

from __future__ import annotations

from typing import Final

import streamlit as st

from app import downloads, faults, tables, tasks, words
from app.scope import Scope
from app.sign_in import Viewer
from app.statement_files import closed_book
from exporter.errors import UsageError

MEGABYTE: Final = 1_000_000


def show(scope: Scope) -> None:
    """Draw the button, and how far things are."""
    who = st.session_state["viewer"]
    busy = any(t.state == "working" for t in tasks.of(who).values())
    st.caption("PDF, Excel, CSV and JSON of every tenant, and FOCUS, in one ZIP. It goes on when you close this tab.")
    st.button(
        f"Make all statements of {scope.month.days.label}",
        icon=":material/folder_zip:",
        disabled=busy,
        on_click=lambda: _start(scope, who),
    )
    if refused := st.session_state.pop("task refused", None):
        st.warning(words.sentence(refused))
    if busy:
        st.fragment(_list, run_every=1.0)(who)
    else:
        _list(who)


def _start(scope: Scope, who: Viewer) -> None:
    month, config = scope.month, scope.config
    what = "Drafts" if closed_book(config, month.name) is None else "Statements"
    try:
        tasks.start(
            who,
            f"{what} of {month.days.label}, as of {words.instant(scope.as_of, scope.zone)}",
            f"{what} {scope.reader.content} {month.name} {config.config_hash}",
            "app.bulk",
            [str(config.path), month.name],
            f"statements-{month.name}.zip",
        )
    except UsageError as error:
        st.session_state["task refused"] = faults.told(error, who)


def _list(who: Viewer) -> None:
    for task in reversed([*tasks.of(who).values()]):
        if task.state == "working":
            with st.container(horizontal=True, vertical_alignment="center"):
                part = task.done / task.total if task.total else 0.0
                said = f"{task.done} of {task.total}" if task.total else "reckoning"
                st.progress(min(part, 1.0), f"{task.label}: {said}")
                st.button("Cancel", key=f"cancel {task.id}", on_click=tasks.cancel, args=(who, task.id))
        elif task.state == "done":
            size = task.path.stat().st_size / MEGABYTE if task.path.exists() else 0.0
            tables.buttons([(f"{task.label}, ZIP, {size:,.1f} MB", downloads.task_address(task))])
        elif task.state == "failed":
            said = task.error and faults.told(UsageError(task.error), who)
            said = said or f"{task.label} could not be made"
            st.error(words.sentence(said))
        else:
            st.caption(f"{task.label}: cancelled.")
    shown = tuple((t.id, t.state) for t in tasks.of(who).values())
    before = st.session_state.get("tasks shown")
    st.session_state["tasks shown"] = shown
    if before is not None and before != shown and not any(state == "working" for _, state in shown):
        st.rerun()  # the button is free again, and nothing needs to be asked every second
