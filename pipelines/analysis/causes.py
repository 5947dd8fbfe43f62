"""The answers that the analysis may give, and what a practitioner tries first for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    """One answer.

    Attributes:
        id: what reports, tables and labels hold.
        title: for people.
        meaning: what the GPU does, in one sentence.
        remedy: what to try first, the cheapest first; "" where nothing is to be done.
        accuses: whether it says that somebody holds more than the work needs: then it has to be right.
    """

    id: str
    title: str
    meaning: str
    remedy: str = ""
    accuses: bool = False


UNKNOWN: Final = "unknown"
UNOBSERVED: Final = "unobserved"

CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "idle",
        "Held and idle",
        "Nothing runs on the GPU and nothing is copied to or from it, for minutes on end.",
        "End the job or notebook, or let it end itself when idle; ask for as many GPUs as the program uses.",
        accuses=True,
    ),
    Cause(
        "thermal",
        "Slowed by heat",
        "The card lowers its clocks since it, or its memory, is too hot.",
        "Report the card to the operator: airflow, dust, a failed fan, a neighbour's exhaust; restart on another node.",
    ),
    Cause(
        "power",
        "Slowed by its power limit",
        "The card lowers its clocks to stay within its power limit.",
        "Ask the operator whether the limit is meant; else mixed precision and fused kernels do more work per watt.",
    ),
    Cause(
        "straggler",
        "One rank holds up the others",
        "In each step all ranks wait for the same one.",
        "Look at that rank's card, node and share of the data; exclude the node, or even out the batches' lengths.",
    ),
    Cause(
        "checkpoint",
        "Stops to write checkpoints",
        "All ranks stand still at once, again and again, while the state is copied out.",
        "Write asynchronously or to local disk first, shard the state over the ranks, or save less often.",
    ),
    Cause(
        "pipeline_bubble",
        "Pipeline stages wait for each other",
        "Stages stand still in turn, at the beginning and end of each step.",
        "More micro-batches per step, an interleaved schedule, or fewer stages: data parallel before model parallel.",
    ),
    Cause(
        "input",
        "Waits for its input",
        "The GPU works and stands still by turns: batches don't come fast enough.",
        "More loader workers and prefetching, data in fewer and larger files or on local disk, decoding on the GPU.",
    ),
    Cause(
        "host_copies",
        "Copies between host and GPU",
        "Kernels wait for large copies over PCIe.",
        "Keep the data on the GPU; pinned memory, asynchronous copies that overlap, less off-loading.",
    ),
    Cause(
        "communication",
        "Communication between GPUs",
        "Kernels of collectives hold the GPU while data moves between cards.",
        "Overlap communication with the backward pass, accumulate gradients, larger batches, compress; then faster "
        "links, or fewer and larger GPUs.",
    ),
    Cause(
        "memory_bandwidth",
        "Memory bandwidth",
        "Kernels wait for the GPU's own memory.",
        "Fuse kernels (compile the model), 16-bit or smaller types, larger batches where weights are read each time.",
    ),
    Cause(
        "no_tensor_cores",
        "Tensor cores unused",
        "The SMs compute in FP32 on a card that has tensor cores.",
        "Turn on mixed precision (bf16) or TF32, with sizes that are multiples of 8.",
    ),
    Cause(
        "compute",
        "Compute",
        "The SMs are busy: the GPU does what it can.",
        "Nothing is wrong; more GPUs (data parallel) make it faster, not cheaper.",
    ),
    Cause(
        "overprovisioned",
        "More card than the work needs",
        "At its peak the work took less than half of the card's memory, and less than half of its SMs.",
        "Take a MIG instance or a smaller card, or put several such workloads on one card.",
        accuses=True,
    ),
    Cause(
        UNKNOWN,
        "Unknown",
        "What was measured fits no cause, or more than one, or changes faster than it was sampled.",
        "Measure inside the job (gpuledger.training), or sample oftener and with the profiling metrics.",
    ),
)
"""In the order in which they are told apart: what explains a later signature comes before it."""

BY_ID: Final[dict[str, Cause]] = {cause.id: cause for cause in CAUSES}
ACCUSING: Final = frozenset(cause.id for cause in CAUSES if cause.accuses)
