"""One workload's cost, lease by lease: when, on what, in which class, at which rate."""

from __future__ import annotations

import polars as pl
import streamlit as st

from app import address, words
from app.accounts import ZERO
from app.scope import Scope
from app.shares import CLASSES, leases_of, lines
from app.views import whole


def show(scope: Scope, workload: str) -> None:
    """Draw the page."""
    if st.button("All workloads", icon=":material/arrow_back:"):
        address.put("workload", None)
        st.rerun()
    rows = leases_of(scope, workload)
    total = sum((row["amount"] for row in rows), ZERO)
    name = words.literal(workload)
    if not rows:
        st.title(f"{scope.span.label}: nothing charged for {name}")
        st.info("It held no GPU in this time. Choose another time above, or go back to all workloads.")
        return
    st.title(f"{scope.span.label}: {name} cost {words.literal(words.money(total, scope.currency))}")
    hours = sum(row["gpu_hours"] for row in rows)
    devices = len({(row["device"], row["instance"]) for row in rows})
    st.markdown(
        f"{words.hours(hours)} GPU-hours on {devices} {'device' if devices == 1 else 'devices'}, for "
        f"{words.literal(scope.tenant_name(scope.tenant))}. Each line is its part of the cost, by hours × rate."
    )
    frame = pl.DataFrame(
        [
            (
                row["start"].astimezone(scope.zone).replace(tzinfo=None),
                row["end"].astimezone(scope.zone).replace(tzinfo=None),
                row["node"],
                f"{row['device']}/{row['instance']}" if row["instance"] else row["device"],
                CLASSES[row["class"]],
                row["reservation"],
                row["gpu_hours"],
                row["rate"],
                row["amount"],
            )
            for row in rows
        ],
        schema={
            "start": pl.Datetime,
            "end": pl.Datetime,
            "node": pl.String,
            "device": pl.String,
            "class": pl.String,
            "reservation": pl.String,
            "gpu_hours": pl.Float64,
            "rate": pl.Decimal(38, 18),
            "amount": pl.Decimal(38, 4),
        },
        orient="row",
    )
    st.dataframe(
        frame,
        hide_index=True,
        placeholder=words.UNKNOWN,
        column_config={
            "start": st.column_config.DatetimeColumn("From", format="D MMM YYYY, HH:mm"),
            "end": st.column_config.DatetimeColumn("To", format="D MMM YYYY, HH:mm"),
            "node": "Node",
            "device": st.column_config.TextColumn("Device", width=110),
            "class": "Class",
            "reservation": "Reservation",
            "gpu_hours": st.column_config.NumberColumn("GPU-hours", format="%,.2f"),
            "rate": st.column_config.NumberColumn(f"Rate, {scope.currency} per GPU-hour", format="%.4f"),
            "amount": st.column_config.NumberColumn(
                f"Cost, {scope.currency}", format=words.money_format(scope.currency)
            ),
        },
    )
    owed = sum((a for t in lines(scope, scope.span).values() for a in t.values()), ZERO)
    tenant = scope.tenant_name(scope.tenant)
    whole.show(scope, [("This workload", total), (f"All else that {tenant} pays for", owed - total)])
