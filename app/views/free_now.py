"""What is free: now, as the ledger's last instant has it, and in the two weeks ahead beside what is reserved."""

from __future__ import annotations

import polars as pl
import streamlit as st

from app import palette, tables, timelines, words
from app.free import ahead
from app.scope import Scope
from app.views.common import draw
from pipelines.availability import Availability


def show(scope: Scope) -> None:
    """Draw the sections."""
    found = ahead(scope)
    st.header("Free now")
    if found is None:
        st.info("The ledger holds no usage.")
        return
    _now(scope, found)
    if found.windows:
        st.header("Not reserved in the two weeks ahead")
        _windows(scope, found)
    if found.refusals:
        st.header("Promised, and can't be kept")
        for why in found.refusals:
            st.warning(words.sentence(why), icon=":material/event_busy:")


def _now(scope: Scope, found: Availability) -> None:
    free = sum(model.free_whole for model in found.models)
    block = max((model.largest_block for model in found.models), default=0)
    st.markdown(
        f"**{words.counted(free, 'whole GPU')}** at {words.instant(found.at, scope.zone)}, where the data "
        f"end; at most {block} of one model on one node."
    )
    tables.sums(
        ["Model", "GPUs", "Held", "Free", "whole", "on one node", "Down", "Stranded", "Unknown"],
        [
            (
                model.model or "unknown model",
                f"{model.cards:,.0f}",
                f"{model.held:,.1f}",
                f"{model.free:,.1f}",
                f"{model.free_whole:,}",
                f"{model.largest_block:,}",
                f"{model.down:,.1f}",
                f"{model.stranded:,.1f}",
                f"{model.unknown:,.1f}",
            )
            for model in found.models
        ],
    )
    nodes = [(model, block) for model in found.models for block in model.blocks]
    if nodes:
        with st.expander(f"By node: {len(nodes)} with whole GPUs free"):
            tables.sums(
                ["Node", tables.Cell("Model"), "Free GPUs"],
                [
                    (block.node or "unknown node", tables.Cell(model.model or "unknown model"), f"{block.gpus:,}")
                    for model, block in nodes
                ],
            )


def _windows(scope: Scope, found: Availability) -> None:
    rows = pl.DataFrame(
        [
            (
                w.model or "unknown model",
                w.gpus,
                *(f"{t.astimezone(scope.zone):%Y-%m-%dT%H:%M:%S}" for t in (w.from_, w.to)),
            )
            for w in found.windows
        ],
        schema={"model": pl.String, "gpus": pl.Int64, "start": pl.String, "end": pl.String},
        orient="row",
    )
    colours = palette.series_colours(sorted(rows["model"].unique()))
    tables.legend(colours.items())
    draw(timelines.windows(rows, colours), "GPUs that nobody has reserved, by model, over the two weeks ahead")
    tables.sums(
        ["Model", tables.Cell("From"), tables.Cell("To"), "GPUs", "on one node"],
        [
            (
                w.model or "unknown model",
                tables.Cell(words.instant(w.from_, scope.zone)),
                tables.Cell(words.instant(w.to, scope.zone)),
                f"{w.gpus:,}",
                f"{w.largest_block:,}",
            )
            for w in found.windows
        ],
        caption="Cards that nobody has reserved and nothing takes out of use. What runs now may run on into them.",
    )
