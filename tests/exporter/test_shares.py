from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from exporter.devices import Device, GpuInstance, MigDevice
from exporter.identity import Identities, Target
from exporter.owners.claims import Claim, Owner
from exporter.owners.shares import Share, Source, settle, unowned

DEVICES = [
    Device(f"GPU-{number}", number, number, f"00000000:0{number}:00.0", "H100", mig=number == 2,
           instances=(
               GpuInstance("1", "3g.40gb", (MigDevice("MIG-a", "0"), MigDevice("MIG-b", "1"))),
               GpuInstance("2", "3g.40gb", (MigDevice("MIG-c", "0"),)),
           ) if number == 2 else ())
    for number in range(3)
]  # fmt: skip
IDENTITIES = Identities(DEVICES)
NAMES = ["GPU-0", "GPU-1", "GPU-2", "MIG-a", "MIG-b", "MIG-c", "GPU-0::0", "GPU-0::1", "GPU-1::4"]


def claim(name: str, owner: Owner) -> Claim:
    target = IDENTITIES.resolve(name)
    assert target is not None
    return Claim(target, owner, name.partition("::")[2])


def settle_one(*claims: Claim) -> list[Share]:
    return settle([Source("kubernetes", claims)], IDENTITIES)[0]


owners = st.sampled_from([Owner("ns", f"pod-{number}") for number in range(5)])
claims = st.lists(st.builds(claim, st.sampled_from(NAMES), owners), max_size=25)


slots = st.dictionaries(st.sampled_from(sorted({IDENTITIES.resolve(name) for name in NAMES})), st.integers(1, 8))


@given(claims, claims, slots, st.floats(0, 1e9), st.floats(0, 1e11))
def test_shares_and_the_unowned_rest_are_the_whole_device(
    allocations: list[Claim], evidence: list[Claim], cut: dict[Target, int], energy: float, memory: float
) -> None:
    sources = [Source("kubernetes", allocations, slots=cut), Source("processes", evidence, evidence=True)]
    shares, _ = settle(sources, IDENTITIES)
    left = unowned(shares)
    for target in {share.target for share in shares}:
        held = [share.share for share in shares if share.target == target]
        assert all(0 < share <= 1 for share in held)
        assert 0 <= left[target] <= 1
        for whole in (Fraction(energy), Fraction(memory), Fraction(15)):
            assert sum(share * whole for share in held) + left[target] * whole == whole


@given(claims)
def test_the_order_of_claims_changes_nothing(allocations: list[Claim]) -> None:
    def as_set(shares: list[Share]) -> set[tuple[Target, Owner, Fraction]]:
        return {(share.target, share.owner, share.share) for share in shares}

    assert as_set(settle_one(*allocations)) == as_set(settle_one(*reversed(allocations)))


def test_time_slices_split_a_card_evenly() -> None:
    shares = settle_one(*(claim(f"GPU-0::{number}", Owner("ns", f"p{number}")) for number in range(3)))
    assert [share.share for share in shares] == [Fraction(1, 3)] * 3
    assert unowned(shares) == {Target("GPU-0"): 0}


def test_an_owner_of_two_slices_has_both() -> None:
    big, small = Owner("ns", "big"), Owner("ns", "small")
    shares = settle_one(claim("GPU-0::0", big), claim("GPU-0::1", big), claim("GPU-0::2", small))
    assert {share.owner: share.share for share in shares} == {big: Fraction(2, 3), small: Fraction(1, 3)}


def test_a_compute_instance_that_nobody_holds_stays_unowned() -> None:
    shares = settle_one(claim("MIG-a", Owner("ns", "p")))
    assert [(share.target, share.share) for share in shares] == [(Target("GPU-2", "1"), Fraction(1, 2))]
    assert unowned(shares) == {Target("GPU-2", "1"): Fraction(1, 2)}


def test_the_first_source_decides_and_the_other_is_a_conflict() -> None:
    pod, job = Owner("ns", "pod"), Owner(job="8812")
    shares, conflicts = settle(
        [Source("kubernetes", [claim("GPU-0", pod)]), Source("slurm", [claim("GPU-0", job), claim("GPU-1", job)])],
        IDENTITIES,
    )
    assert {share.target.uuid: share.owner for share in shares} == {"GPU-0": pod, "GPU-1": job}
    assert [(c.target.uuid, c.kept, c.overruled) for c in conflicts] == [("GPU-0", "kubernetes", "slurm")]


def test_sources_that_agree_are_no_conflict() -> None:
    granted = Owner("ns", "pod", "main", "uid-1")
    seen = Owner(pod_uid="uid-1")
    by_name_only = Owner("ns", "pod")
    for allocation in (granted, by_name_only):
        sources = [
            Source("kubernetes", [claim("GPU-0", allocation)]),
            Source("processes", [claim("GPU-0", seen)], evidence=True),
        ]
        shares, conflicts = settle(sources, IDENTITIES)
        assert [share.owner for share in shares] == [allocation]
        assert conflicts == []


def test_work_seen_on_a_card_that_was_granted_elsewhere_is_a_conflict_and_no_share() -> None:
    """An MPS daemon on card 0 runs the pod that the kubelet gave card 1 (dcgm-exporter 568)."""
    sources = [
        Source("kubernetes", [claim("GPU-1::3", Owner("ns", "pod", "main", "uid-1"))]),
        Source("processes", [claim("GPU-0", Owner(pod_uid="uid-1"))], evidence=True),
    ]
    shares, conflicts = settle(sources, IDENTITIES)
    assert [share.target.uuid for share in shares] == ["GPU-1"]
    assert [(c.target.uuid, c.kept, c.overruled) for c in conflicts] == [("GPU-0", "kubernetes", "processes")]


def test_work_that_no_scheduler_knows_of_holds_what_it_runs_on() -> None:
    sources = [
        Source("kubernetes", []),
        Source("processes", [claim("GPU-0", Owner(workload="user:ada", user="ada"))], evidence=True),
    ]
    shares, conflicts = settle(sources, IDENTITIES)
    assert [(share.owner.user, share.share) for share in shares] == [("ada", 1)]
    assert conflicts == []
