"""What is free now and in the windows ahead: the ledger's own answer, from the few rows that it needs."""

from __future__ import annotations

from typing import Final

import polars as pl
import streamlit as st

from app.scope import Scope
from pipelines.availability import Availability, availability
from pipelines.fleet_state import TABLES
from pipelines.metering import LEASE, OUTAGE, Metered
from pipelines.rollup import USAGE
from pipelines.tables import conformed

LAST: Final = """
    -- grain: device × state × lease, at the last instant of the data; no row is longer than an hour
    SELECT * FROM usage WHERE start >= $last - 3600000 AND start < $last AND "end" >= $last
"""

HOLDING: Final = """
    -- grain: lease, those that reach the last instant of the data
    SELECT * FROM lease WHERE "end" >= $last
"""


def ahead(scope: Scope) -> Availability | None:
    """Return what is free at the end of the data and promised after it; None: the ledger holds no usage."""
    return _reckoned(scope.reader.content, scope.config.config_hash, scope)


@st.cache_data(max_entries=4, show_spinner=False)
def _reckoned(published: str, config_hash: str, _scope: Scope) -> Availability | None:
    # The file's name stands for its content: the same one gives the same answer.
    del published, config_hash
    first, last = _scope.ask("SELECT span_start, span_end FROM metered_from").row(0)
    if last is None:
        return None
    state = {name: conformed(_scope.ask(f"FROM {name}"), s) for name, s in TABLES.items() if _scope.has(name)}
    metered = Metered(
        conformed(_scope.ask(HOLDING, last=last), LEASE),
        conformed(_scope.ask(LAST, last=last), USAGE),
        pl.DataFrame(schema=OUTAGE),
        [],
        (first, last),
        state=state,
    )
    return availability(metered, _scope.config, _scope.as_of)
