"""The app: what is published, as pages. Streamlit runs this file for every session and every click."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import streamlit as st

from app import chooser, tables, words
from app.ledger_files import LedgerFiles
from app.views import PAGES
from exporter.errors import GpuLedgerError
from pipelines.config import load

CONFIG_VARIABLE: Final = "GPULEDGER_CONFIG"
ICON: Final = Path(__file__).with_name("icon.svg")  # a named icon would be fetched from outside


@st.cache_resource(show_spinner=False)
def ledger_files(config: Path, changed: float) -> LedgerFiles:
    """Return the published files of the configured ledger, shared by all sessions.

    Args:
        changed: when the configuration was last written, so that a new one is read.
    """
    del changed
    return LedgerFiles(load(config).ledger)


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config(page_title="GPULedger", page_icon=str(ICON), layout="wide")
    st.logo(str(ICON.with_name("logo.svg")), size="large", icon_image=str(ICON))
    st.html(tables.STYLE)
    page = st.navigation([st.Page(show, title=title, icon=icon, url_path=path) for title, icon, path, show in PAGES])
    try:
        config = Path(os.environ.get(CONFIG_VARIABLE, "gpuledger.yaml"))
        files = ledger_files(config, config.stat().st_mtime if config.exists() else 0.0)
        scope = chooser.choose(files)
        st.session_state["scope"] = scope
    except GpuLedgerError as error:
        st.title("Nothing to show yet")
        st.error(words.literal(str(error)), icon=":material/error:")
        st.stop()
    page.run()
    with st.sidebar:
        st.caption(f"As of {words.instant(scope.as_of, scope.zone)}. Months and days are local to that zone.")


main()
