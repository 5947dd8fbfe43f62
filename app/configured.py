"""The configuration that this process serves, and the published files of its ledger, shared by all of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from app.ledger_files import LedgerFiles
from pipelines.config import Config, load

CONFIG_VARIABLE: Final = "GPULEDGER_CONFIG"
_served: dict[Path, tuple[float, Config, LedgerFiles]] = {}
_lock: Final = threading.Lock()


def configured() -> tuple[Config, LedgerFiles]:
    """Return what is served; a configuration that was written anew is read anew.

    Raises:
        ConfigError: it is missing or wrong.
    """
    path = Path(os.environ.get(CONFIG_VARIABLE, "gpuledger.yaml"))
    changed = path.stat().st_mtime if path.exists() else 0.0
    with _lock:
        known = _served.get(path)
        if known is None or known[0] != changed:
            config = load(path)
            # The same ledger keeps its open files, whatever else was changed.
            files = known[2] if known and known[1].ledger == config.ledger else LedgerFiles(config.ledger)
            known = _served[path] = (changed, config, files)
        return known[1], known[2]
