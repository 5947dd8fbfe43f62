"""What `gpuledger app` starts: the pages, and the HTTP API beside them."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

import app.views  # noqa: F401  what pages need is loaded before the first of them is asked for
from app.api import ROUTES

application = st.App(Path(__file__).with_name("main.py"), routes=ROUTES)
