"""What a statement's reader must know to trust its figures.

A closed statement keeps its words: how earlier releases put them stays here, so that it can be worked out again.
"""

from __future__ import annotations

from typing import Final, Literal

LATEST: Final = 2
EDITIONS: Final = (LATEST, 1)
"""How notes were worded: 1 said of what was never observed both that nothing was, and that 0.0 % was."""

_UNOBSERVED: Final = "Nothing of what was held was observed: utilisation and waste are unknown, not zero."
_UNPRICED: Final = "Some hours have no price and are left out; such a period can't be closed."


def notes(
    coverage: float | None,
    utilization: float | None,
    *,
    unpriced: bool,
    billing_hours: float | None = None,
    edition: int = LATEST,
) -> list[str]:
    """Return the notes of a statement.

    Args:
        coverage: None: nothing was held.
        utilization: None: nothing of what was held was ever observed.
        billing_hours: what Slurm billed; None: not known.
    """
    found = []
    if edition == 1:
        if coverage is not None and coverage < 1:
            found.append(_partly(f"{coverage:.1%}"))
        if coverage is None or utilization is None:
            found.append(_UNOBSERVED)
    else:
        said = about_coverage(coverage, utilization)
        if said == "partly" and coverage is not None:
            found.append(_partly(observed(coverage)))
        elif said == "never":
            found.append(_UNOBSERVED)
    if unpriced:
        found.append(_UNPRICED)
    if billing_hours is not None:
        found.append(
            f"Slurm billed {billing_hours:,.2f} billing-hours (TRESBillingWeights) for this tenant's jobs, those "
            "without GPUs included; amounts go by GPU-hours."
        )
    return found


def about_coverage(coverage: float | None, utilization: float | None) -> Literal["partly", "never"] | None:
    """Return what is to be said about coverage; None: all that was held, if anything, was observed."""
    if coverage is None:
        return None
    if utilization is None:
        return "never"
    return "partly" if coverage < 1 else None


def observed(coverage: float) -> str:
    """Return a share below 1 as percent: less than all is never shown as 100 %, nor more than nothing as 0 %."""
    return f"{min(max(coverage, 0.001), 0.999):.1%}"


def _partly(share: str) -> str:
    return (
        f"Utilisation and waste rest on the {share} of the held time that was observed; "
        "hours and amounts don't depend on it."
    )
