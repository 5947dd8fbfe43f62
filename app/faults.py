"""What people are told of an error: an operator all of it, others neither where files lie nor what is configured.

The whole line goes to the log, which the operator reads.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Final

from app.callers import RefusedError
from app.configured import CONFIG_VARIABLE
from app.sign_in import NotAllowedError, NotSignedInError, Viewer
from exporter.errors import ConfigError, GpuLedgerError, UsageError

_log: Final = logging.getLogger("gpuledger.app")
_FOLDERS: Final = re.compile(r"(?<![\w.~-])/(?:[^\s/:;,'\"()]+/)+")
MISCONFIGURED: Final = "the configuration is faulty; its operator sees what is wrong with `gpuledger check`"


def told(error: GpuLedgerError, who: Viewer | None = None) -> str:
    """Return what a person is told of an error, and log the whole of it where that is less.

    Args:
        who: None: somebody who isn't known yet.
    """
    text = str(error)
    if who is not None and who.role == "operator":
        return text
    said = MISCONFIGURED if isinstance(error, ConfigError) else without_folders(text)
    if said != text:
        _log.error("%s", text)
    return said


def status_of(error: GpuLedgerError) -> int:
    """Return an error's status as HTTP's answers have it: 404 is the asker's doing, 503 is not."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, NotSignedInError | NotAllowedError):
        return 403
    return 404 if isinstance(error, UsageError) and not isinstance(error, ConfigError) else 503


def without_folders(text: str) -> str:
    """Return a message in which files are called by their names alone."""
    own = Path(os.environ.get(CONFIG_VARIABLE, "gpuledger.yaml")).resolve().parent
    return _FOLDERS.sub("", text.replace(f"{own}/", "").replace(str(own), own.name))
