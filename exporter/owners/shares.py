"""From claims to shares: who holds how much of each device, and where the sources disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from exporter.identity import Identities, Target
from exporter.owners.claims import Claim, Owner


@dataclass(frozen=True, slots=True)
class Share:
    """An owner's part of one card or GPU instance; the shares of a target never exceed 1."""

    target: Target
    owner: Owner
    share: Fraction
    source: str
    slice: str = ""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two sources name different owners for one target; ``kept`` is believed."""

    target: Target
    kept: str
    overruled: str


@dataclass(frozen=True, slots=True)
class Source:
    """The claims of one adapter, in the order of trust that the command line gives."""

    name: str
    claims: Sequence[Claim]
    evidence: bool = False
    slots: Mapping[Target, int] = field(default_factory=dict)


def settle(sources: Sequence[Source], identities: Identities) -> tuple[list[Share], list[Conflict]]:
    """Shares of every claimed target, and the conflicts between sources.

    The first source that claims a target decides it. Its claims split it evenly: time slices and MPS clients get a
    slice each, of as many as there are where that is known; slices that nobody holds are unowned. What later sources
    say of the same target is compared: another owner is a conflict. Evidence (processes seen) of an owner that has an
    allocation elsewhere is a conflict where it is seen, and no share.
    """
    shares: list[Share] = []
    conflicts: dict[tuple[Target, str, str], Conflict] = {}
    decided: dict[Target, tuple[Source, list[Claim]]] = {}
    for source in sources:
        by_target: dict[Target, list[Claim]] = {}
        for claim in source.claims:
            by_target.setdefault(_whole(claim.target), []).append(claim)
        earlier = dict(decided)
        for target, claims in by_target.items():
            if target in earlier:
                kept, held = earlier[target]
                if not all(any(claim.owner.may_be(other.owner) for other in held) for claim in claims):
                    conflicts[target, kept.name, source.name] = Conflict(target, kept.name, source.name)
                continue
            counted = claims
            if source.evidence:
                counted, elsewhere = _without_allocation(claims, earlier)
                for kept_name in elsewhere:
                    conflicts[target, kept_name, source.name] = Conflict(target, kept_name, source.name)
            if counted:
                decided[target] = (source, counted)
                shares.extend(_split(target, counted, source, identities))
    return shares, list(conflicts.values())


def _whole(target: Target) -> Target:
    """The card or GPU instance that a MIG device is part of."""
    return Target(target.uuid, target.instance)


def _without_allocation(
    claims: list[Claim], decided: Mapping[Target, tuple[Source, list[Claim]]]
) -> tuple[list[Claim], set[str]]:
    """Evidence of owners that no allocation names, and the sources whose allocations name the others."""
    free, elsewhere = [], set()
    for claim in claims:
        names = {
            source.name for source, held in decided.values() if any(claim.owner.same_as(other.owner) for other in held)
        }
        elsewhere |= names
        if not names:
            free.append(claim)
    return free, elsewhere


def _split(target: Target, claims: list[Claim], source: Source, identities: Identities) -> list[Share]:
    """Even parts: per MIG device first, then per distinct claim on it; one owner's slices are added up."""
    by_device: dict[Target, set[tuple[Owner, str]]] = {}
    for claim in claims:
        by_device.setdefault(claim.target, set()).add((claim.owner, claim.slice))
    # A compute instance that nobody claims keeps its part: it is unowned.
    named = all(device.mig_device for device in by_device)
    parts = max(identities.parts(target) if named else len(by_device), len(by_device))
    totals: dict[Owner, Fraction] = {}
    slices: dict[Owner, list[str]] = {}
    for device, holders in by_device.items():
        cut = max(source.slots.get(device, 0), len(holders))
        for owner, slice_id in sorted(holders):
            totals[owner] = totals.get(owner, Fraction(0)) + Fraction(1, parts * cut)
            slices.setdefault(owner, []).append(slice_id)
    return [
        Share(target, owner, share, source.name, ",".join(filter(None, slices[owner])))
        for owner, share in totals.items()
    ]


def unowned(shares: Sequence[Share]) -> dict[Target, Fraction]:
    """What is left of each target that has an owner."""
    left: dict[Target, Fraction] = {}
    for share in shares:
        left[share.target] = left.get(share.target, Fraction(1)) - share.share
    return left
