"""What `gpuledger app` starts: the pages, and the HTTP API and downloads beside them."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

import app.views  # noqa: F401  what pages need is loaded before the first of them is asked for
from app import api, downloads

application = st.App(
    Path(__file__).with_name("main.py"),
    routes=[*api.ROUTES, *downloads.ROUTES],
    middleware=[Middleware(downloads.MediaGuard)],
)
