"""The app: what is published, as pages. Streamlit runs this file for every session and every click."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from app import address, chooser, faults, sign_in, tables, words
from app.configured import configured
from app.scope import Scope
from app.sign_in import NotSignedInError, Viewer
from app.views import PAGES
from exporter.errors import GpuLedgerError
from pipelines.publish import Publication

FOLLOWED_S: Final = 60.0
ICON: Final = Path(__file__).with_name("icon.svg")  # a named icon would be fetched from outside


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config(page_title="GPULedger", page_icon=str(ICON), layout="wide")
    st.logo(str(ICON.with_name("logo.svg")), size="large", icon_image=str(ICON))
    st.html(tables.STYLE)
    who: Viewer | None = None
    try:
        config, files = configured()
        try:
            who = sign_in.viewer(config.access)
        except NotSignedInError as reason:
            st.navigation([lambda: None], position="hidden")
            sign_in.door(config.access, str(reason))
            st.stop()
        st.session_state["viewer"] = who
        page = st.navigation(_menu(whole_fleet=who.tenants is None))
        address.on_page(page.url_path)
        st.session_state["scope"] = scope = chooser.choose(config, files, who)
        above = st.container()
        page.run()
        with above:
            _refusals(scope)
    except GpuLedgerError as error:
        st.title("Nothing to show")
        st.error(words.sentence(faults.told(error, who)), icon=":material/error:")
        with st.sidebar:
            _follow(_published())
            sign_in.leave()
        st.stop()
    finally:
        address.settle()
    with st.sidebar:
        st.caption(f"As of {words.instant(scope.as_of, scope.zone)}. Months and days are local to that zone.")
        _follow(files.publication())
        sign_in.sign_out(config.access, who)


@st.fragment(run_every=FOLLOWED_S)
def _follow(shown: Publication | None) -> None:
    """Draw the page anew once something else is published: it may stay open all day."""
    if _published() not in (shown, None):
        st.rerun()


def _published() -> Publication | None:
    try:
        return configured()[1].publication()
    except GpuLedgerError:
        return None


def _refusals(scope: Scope) -> None:
    """Say what of the address was left out: whoever follows an old link must see that it is another view."""
    if named := address.refusals():
        st.warning(
            f"The address asks for something that isn't there ({', '.join(dict.fromkeys(named))}). This is "
            f"{words.literal(scope.span.label)}, {words.literal(_whose(scope))}.",
            icon=":material/link_off:",
        )


def _whose(scope: Scope) -> str:
    return "all tenants" if scope.tenant is None else scope.tenant_name(scope.tenant)


def _menu(*, whole_fleet: bool) -> list[StreamlitPage]:
    shown = [page for page in PAGES if whole_fleet or not page.of_fleet]
    named = [st.Page(page.show, title=page.title, icon=page.icon, url_path=page.path) for page in shown]
    linked = [
        st.Page(page.show, title=page.title, icon=page.icon, url_path=path, visibility="hidden")
        for page in shown
        for path in page.also
    ]
    return [*named, *linked]


main()
