"""Kinds of work, as a GPU shows them while they last.

SM activity counts an SM with a resident warp, whether it computes or waits for memory (NVIDIA DCGM user guide,
"Profiling metrics"): a kernel that is bound by memory shows busy SMs beside busy DRAM, and a collective's kernel shows
the few SMs that its channels take, also while it spins and waits for another rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from pipelines.simulate.behaviours.published import SM_ACTIVE, TENSOR_ACTIVE, drawn
from pipelines.simulate.behaviours.trace import Work

HOST_COPY_PAGEABLE: Final = (2.5e9, 9e9)
HOST_COPY_PINNED: Final = (12e9, 24e9)
"""Bytes/s of a copy between host and GPU over PCIe 4 x16 (32 GB/s at most) from ordinary and from pinned memory."""


def mixed_precision(rng: np.random.Generator) -> Work:
    """Steps of a well-made model in 16 bits: as busy as the upper half of Acme's samples."""
    u = rng.uniform(0.62, 0.985)
    tensor = drawn(TENSOR_ACTIVE["kalos"], rng, 0.62, 0.99)
    return Work(
        engine=0.99,
        sm=max(drawn(SM_ACTIVE["kalos"], rng, u, u), tensor * 1.3, 0.64),
        tensor=tensor,
        dram=rng.uniform(0.2, 0.42),
        fp32=rng.uniform(0.04, 0.12),
    )


def full_precision(rng: np.random.Generator) -> Work:
    """The same in FP32, on the ordinary pipes."""
    return Work(
        engine=0.99,
        sm=rng.uniform(0.72, 0.95),
        tensor=rng.uniform(0.0, 0.004),
        dram=rng.uniform(0.12, 0.34),
        fp32=rng.uniform(0.38, 0.75),
    )


def double_precision(rng: np.random.Generator) -> Work:
    """A solver in FP64."""
    return Work(
        engine=0.99, sm=rng.uniform(0.85, 0.98), dram=rng.uniform(0.15, 0.4), fp64=rng.uniform(0.35, 0.8), fp32=0.02
    )


def streaming(rng: np.random.Generator, *, tensor: float = 0.0) -> Work:
    """Kernels that read and write more than they compute: warps are there, and wait for DRAM."""
    return Work(
        engine=0.99,
        sm=rng.uniform(0.7, 0.97),
        tensor=tensor,
        dram=rng.uniform(0.7, 0.9),
        fp32=rng.uniform(0.05, 0.18),
    )


def small_kernels(rng: np.random.Generator) -> Work:
    """Kernels too small to fill the card, with gaps in between while the host launches the next."""
    engine = rng.uniform(0.35, 0.8)
    sm = engine * rng.uniform(0.15, 0.45)
    return Work(engine=engine, sm=sm, tensor=sm * rng.uniform(0.0, 0.12), dram=engine * rng.uniform(0.05, 0.22),
                fp32=sm * 0.2)  # fmt: skip


def waiting_in_collective(rng: np.random.Generator) -> Work:
    """A collective's kernel that spins until the other ranks come."""
    return Work(engine=1.0, sm=rng.uniform(0.05, 0.18), dram=0.01)


def collective(waiting: Work, link: float, *, over_pcie: bool = False) -> Work:
    """The same kernel moving data: `link` bytes/s in each direction."""
    moving = replace(waiting, sm=min(waiting.sm * 1.4, 1.0), dram=0.08)
    return replace(moving, receive=link, transmit=link) if over_pcie else replace(moving, link=link)


def copying(*, receive: float = 0.0, transmit: float = 0.0) -> Work:
    """Copy engines at work; no kernel runs."""
    return Work(dram=0.02, receive=receive, transmit=transmit)


def beside(work: Work, **signals: float) -> Work:
    """Work with something else going on at the same time."""
    return replace(work, **signals)


def diluted(work: Work, share: float) -> Work:
    """Work in a share of the time only, in slices too short to tell apart."""
    return Work(**{name: getattr(work, name) * share for name in Work.__slots__})
