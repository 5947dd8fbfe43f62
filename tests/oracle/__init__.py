"""An independent engine for the replay report: brute force, exact, and none of the project's own code.

It is written from the rules alone ("How things are decided" in the design, the contract's configuration and report)
and shares no module with the pipeline, so that a difference between the two is a misreading by one of them. Every
quantity is an int (milliseconds) or a `Fraction`; the period is cut at every edge there is, each elementary interval
is judged by the rules as they stand, and what the intervals say is summed.

Where the rules leave a choice, the module that makes it lists its readings, numbered by module, in its docstring,
each with what was rejected.
"""

from __future__ import annotations

from tests.oracle.report import replay

__all__ = ["replay"]
