"""A step meter for training loops: what only the loop itself knows, as Prometheus metrics.

```python
from gpuledger.training import StepMeter

meter = StepMeter("resnet50", flops_per_sample=12.3e9, precision="bf16", export="http:9840")
for batch in meter.batches(loader):
    with meter.step(samples=len(batch)):
        train(batch)
```

It needs the standard library and prometheus-client, imports no framework, and never disturbs training: what fails in
it is said once, in the log, and training goes on.
"""

from __future__ import annotations

from gpuledger.training.flops import transformer_flops_per_token
from gpuledger.training.meter import StepMeter
from gpuledger.training.peaks import peak_flops

__all__ = ["StepMeter", "peak_flops", "transformer_flops_per_token"]
