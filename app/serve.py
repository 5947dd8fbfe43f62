"""What `gpuledger app` starts: the pages, and the HTTP API and downloads beside them."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

import app.views  # noqa: F401  what pages need is loaded before the first of them is asked for
from app import api, downloads
from app.astray import Astray


@asynccontextmanager
async def _settled(_application: object) -> AsyncIterator[None]:
    """Serve once what is loaded is put out of sight of the garbage collector: it lives as long as the server."""
    gc.collect()
    gc.freeze()
    yield


application = st.App(
    Path(__file__).with_name("main.py"),
    lifespan=_settled,
    routes=[*api.ROUTES, *downloads.ROUTES],
    middleware=[Middleware(downloads.MediaGuard), Middleware(Astray)],
)
