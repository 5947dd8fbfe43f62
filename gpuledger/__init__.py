"""GPULedger's public Python API; importing it costs nothing, a name is loaded when it is first used.

```python
import gpuledger

report = gpuledger.replay("recorded/november")
print(report.fleet.cost, report.fleet.billed, report.fleet.unbilled)
```
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exporter.errors import ConfigError, GpuLedgerError, LedgerBusy, LedgerError, SourceError, UsageError
    from pipelines.config import Config
    from pipelines.config import load as load_config
    from pipelines.operations import import_files, replay, report, run_once
    from pipelines.report import Report

__all__ = [
    "Config",
    "ConfigError",
    "GpuLedgerError",
    "LedgerBusy",
    "LedgerError",
    "Report",
    "SourceError",
    "UsageError",
    "import_files",
    "load_config",
    "replay",
    "report",
    "run_once",
]

_HOMES = {
    "Config": "pipelines.config:Config",
    "ConfigError": "exporter.errors:ConfigError",
    "GpuLedgerError": "exporter.errors:GpuLedgerError",
    "LedgerBusy": "exporter.errors:LedgerBusy",
    "LedgerError": "exporter.errors:LedgerError",
    "Report": "pipelines.report:Report",
    "SourceError": "exporter.errors:SourceError",
    "UsageError": "exporter.errors:UsageError",
    "import_files": "pipelines.operations:import_files",
    "load_config": "pipelines.config:load",
    "replay": "pipelines.operations:replay",
    "report": "pipelines.operations:report",
    "run_once": "pipelines.operations:run_once",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("gpuledger")
    if name not in _HOMES:
        raise AttributeError(f"module 'gpuledger' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
