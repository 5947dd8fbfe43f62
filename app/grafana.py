"""Links from Grafana: its time range and its variable become this app's month, day and tenant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import streamlit as st

from app.scope import Month
from pipelines.instants import from_ms

TENANT = "var-tenant"
SINCE, UNTIL = "from", "to"


def take_tenant() -> None:
    """Take over the variable of a Grafana link."""
    given = st.query_params.pop(TENANT, None)
    if given is not None and "tenant" not in st.query_params:
        st.query_params["tenant"] = given


def take_range(months: Sequence[Month], zone: ZoneInfo) -> None:
    """Take over the time range of a Grafana link: the month in which it ends, and the day on which it begins."""
    since, until = (_instant(st.query_params.pop(name, None)) for name in (SINCE, UNTIL))
    if since is None or until is None or until <= since:
        return
    month = next((m for m in months if m.start < until <= m.end), None)
    if month is not None and "month" not in st.query_params:
        st.query_params["month"] = month.name
        st.query_params["day"] = max(since, month.start).astimezone(zone).date().isoformat()


def _instant(text: str | None) -> datetime | None:
    try:
        return None if text is None else from_ms(int(text))
    except (ValueError, OverflowError):
        return None
