"""A training of DistributedDataParallel over gloo, of one of two ranks; the test starts both."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, IterableDataset

from gpuledger.training import StepMeter, pytorch


class Slow(IterableDataset):  # type: ignore[type-arg]
    """Samples that take their time."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(24):
            time.sleep(0.005)
            yield torch.randn(64)


def main(folder: str) -> None:
    """Train two epochs of three batches, and write the metrics to a textfile."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)))
    meter = StepMeter("ddp", flops_per_sample=6 * 17_000, export=f"textfile:{folder}")
    pytorch.time_communication(meter, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for batch in meter.batches(DataLoader(Slow(), batch_size=8, num_workers=1)):  # a worker is a forked child
            with meter.step(samples=len(batch)):
                loss = model(batch).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    first = next(model.parameters()).detach().clone()
    distributed.broadcast(first, 0)
    assert torch.equal(first, next(model.parameters())), "ranks differ: gradients were not reduced"
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
