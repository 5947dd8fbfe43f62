"""What programs do to GPUs, from how they run: never from what an analysis would make of it.

`shapes` are means over a scrape interval, for the demo fleet. The rest simulates programs phase by phase, far below a
second, and then reads them as DCGM and NVML would: `jobs` draws jobs of known causes from `families`.
"""

from __future__ import annotations

from pipelines.simulate.behaviours.shapes import BEHAVIOURS, Activity, Behaviour, Floats, Moments

__all__ = ["BEHAVIOURS", "Activity", "Behaviour", "Floats", "Moments"]
