"""The small languages inside Slurm's columns: hostlists and TRES."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.hostlist import expand
from pipelines.sources.tres import gpus_by_type


@pytest.mark.parametrize(
    ("expression", "hosts"),
    [
        ("", []),
        ("None assigned", []),
        ("gpu1", ["gpu1"]),
        ("gpu1,gpu2", ["gpu1", "gpu2"]),
        ("gpu[01-03,7],b1", ["gpu01", "gpu02", "gpu03", "gpu7", "b1"]),
        ("gpu[098-101]", ["gpu098", "gpu099", "gpu100", "gpu101"]),
        ("gpu[9-11]", ["gpu9", "gpu10", "gpu11"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu-[1,3]-ib", ["gpu-1-ib", "gpu-3-ib"]),
        ("gpu[1-2],gpu[2-3]", ["gpu1", "gpu2", "gpu3"]),
    ],
)
def test_a_hostlist_is_expanded_in_its_order(expression: str, hosts: list[str]) -> None:
    assert expand(expression) == hosts


@pytest.mark.parametrize(
    "expression",
    ["gpu[1-", "gpu[]", "gpu]1", "gpu[3-1]", "gpu[a-b]", "gpu[1-2],,b", "g[1-99999]n[1-99999]", "[0-9999999]"],
)
def test_a_malformed_or_endless_hostlist_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="host"):
        expand(expression)


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=30, unique=True))
def test_numbers_in_brackets_are_the_hosts_one_by_one(numbers: list[int]) -> None:
    expression = f"n[{','.join(f'{number:04d}' for number in numbers)}]"
    assert expand(expression) == [f"n{number:04d}" for number in numbers]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=4,gres/gpu:a100=1,gres/gpu=1", {"a100": 1}),
        ("cpu=4,gres/gpu:a100=2,gres/gpu:v100=1", {"a100": 2, "v100": 1}),
        ("gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1", {"a100": 2, "v100": 1}),
        ("gres/gpu=3,gres/gpu:a100=2", {"a100": 2, None: 1}),
        ("billing=8,cpu=64,gres/gpu=8,mem=512G,node=1", {None: 8}),
        ("gres/gpu:nvidia_a100_80gb=4", {"nvidia_a100_80gb": 4}),
        ("gres/gpu:1g.10gb=2,gres/gpu=2", {"1g.10gb": 2}),
        ("gres/gpumem=40G,gres/gpuutil=90,gres/shard=4", {}),
        ("cpu=1,mem=64G,node=1", {}),
        ("gres/gpu=0", {}),
        ("", {}),
        ("gpu:A100:4(S:0-1),gpu:NV_A100_40GB:2(IDX:0,3),shard:h100:16", {"A100": 4, "NV_A100_40GB": 2}),
        ("gpu:8", {None: 8}),
        ("gpu:volta:2", {"volta": 2}),
        ("gpu:(null):1(IDX:0),shard:(null):0(N/A)", {None: 1}),  # what slurm.conf gives no type
    ],
)
def test_typed_gpus_are_part_of_the_plain_count(text: str, gpus: dict[str | None, int]) -> None:
    assert gpus_by_type(text) == gpus


@pytest.mark.parametrize(
    "text", ["gres/gpu=many", "gres/gpu:a100", "gres/gpu=", "cpu=1,gres/gpu:a100=-1", "gres/gpu=1.5"]
)
def test_a_gpu_entry_without_a_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="count"):
        gpus_by_type(text)
