"""One job's report: what it held, how it used it, what that cost and wasted, why, and what to try first."""
