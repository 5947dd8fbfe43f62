"""What if: the month's same usage under other prices or another policy, side by side with what it comes to."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import polars as pl
import streamlit as st

from app import address, charts, faults, tables, words
from app.palette import IDLE
from app.scope import Scope
from app.supposed import POLICIES, loaded, supposed
from app.views.common import draw, ink
from exporter.errors import GpuLedgerError
from pipelines.book.whatif import WhatIf, whatif
from pipelines.config import Config

AS_IT_IS: Final = "same"
PERCENTS: Final = tuple(str(n) for n in (-50, -25, -20, -10, -5, 0, 5, 10, 20, 25, 50, 100))
BARS: Final = 12


def show(scope: Scope) -> None:
    """Draw the page."""
    month = scope.month
    with st.container(horizontal=True):
        policy = address.select("Idle policy", "policy", [AS_IT_IS, *POLICIES], AS_IT_IS, _policy)
        percent = address.select(
            "All prices", "prices", PERCENTS, "0", lambda p: f"{int(p):+d}%" if p != "0" else "As they are"
        )
    with st.expander("Or another configuration altogether"):
        given = st.file_uploader("A gpuledger.yaml with other prices, quotas or reservations", type=["yaml", "yml"])
    if given is None and policy == AS_IT_IS and percent == "0":
        st.title(f"{month.days.label}: what if?")
        st.info("Choose another idle policy or other prices above, or give another configuration.")
        return
    try:
        other = (
            loaded(given.getvalue().decode("utf-8", "replace"))
            if given is not None
            else supposed(scope.config, policy=None if policy == AS_IT_IS else policy, percent=int(percent))
        )
        found = _compared(scope.reader.content, month.name, other.config_hash, scope, other)
    except GpuLedgerError as error:
        st.title(f"{month.days.label}: that can't be reckoned")
        st.error(words.sentence(faults.told(error, st.session_state["viewer"])), icon=":material/error:")
        return
    _answer(scope, found)
    _side_by_side(scope, found)


def _policy(name: str) -> str:
    return "As it is" if name == AS_IT_IS else name.title()


def _answer(scope: Scope, found: WhatIf) -> None:
    billed = Decimal(found.fleet.billed)
    direction = "more" if billed > 0 else "less"
    money = words.literal(words.money(abs(billed), found.currency))
    same = billed == 0
    st.title(
        f"{scope.month.days.label}: tenants would pay the same in total"
        if same
        else f"{scope.month.days.label}: tenants would pay {money} {direction}"
    )
    unbilled, cost = (
        words.literal(words.money(Decimal(a), found.currency)) for a in (found.fleet.unbilled, found.fleet.cost)
    )
    st.markdown(f"The fleet's cost changes by {cost}, what stays unbilled by {unbilled}.")
    if found.not_considered:
        sections = words.literal(", ".join(found.not_considered))
        st.warning(f"Not considered, since they change what is measured: {sections}.", icon=":material/info:")


def _side_by_side(scope: Scope, found: WhatIf) -> None:
    shown = [t for t in found.tenants if scope.tenant in (None, t.tenant)]
    ranked = sorted(shown, key=lambda t: (-abs(Decimal(t.difference.total)), t.tenant))
    rows = [
        (scope.tenant_name(t.tenant), kind, float(amount), words.amount(Decimal(amount), found.currency), n)
        for t in ranked[:BARS]
        for n, (kind, amount) in enumerate((("Now", t.now), ("Then", t.then)))
    ]
    frame = pl.DataFrame(rows, schema=["name", "kind", "amount", "text", "order"], orient="row")
    tables.legend((("Now", charts.NOW), ("Then", IDLE.colour)))
    picture = charts.side_by_side(frame, {"Now": charts.NOW, "Then": IDLE.colour}, title=found.currency, ink=ink())
    draw(picture, "What each tenant pays now and would pay then")
    now, then = (sum((Decimal(getattr(t, side)) for t in shown), Decimal(0)) for side in ("now", "then"))
    tables.sums(
        [
            "Tenant",
            f"Now, {found.currency}",
            f"Then, {found.currency}",
            "Difference",
            "of it usage",
            "idle",
            "reserved",
        ],
        [
            (
                scope.tenant_name(t.tenant),
                words.amount(Decimal(t.now), found.currency),
                words.amount(Decimal(t.then), found.currency),
                *(
                    words.amount(Decimal(amount), found.currency)
                    for amount in (t.difference.total, t.difference.usage, t.difference.idle, t.difference.reservation)
                ),
            )
            for t in ranked
        ],
        total=(
            "All of these",
            words.amount(now, found.currency),
            words.amount(then, found.currency),
            words.amount(then - now, found.currency),
            *(
                words.amount(sum((Decimal(getattr(t.difference, k)) for t in shown), Decimal(0)), found.currency)
                for k in ("usage", "idle", "reservation")
            ),
        ),
    )


@st.cache_data(max_entries=32, show_spinner="Rating the month again")
def _compared(published: str, month: str, other_hash: str, _scope: Scope, _other: Config) -> WhatIf:
    # The file's name and the configuration's hash stand for their content.
    del published, other_hash
    return whatif(_scope.config, _other, month)
