"""The project's one exception tree.

GpuLedgerError
├── UsageError          exit status 2: the command line or the configuration is wrong
│   └── ConfigError     a key of gpuledger.yaml
└── WorkError           exit status 1: the work itself failed
    ├── SourceError     a source could not be read
    ├── LedgerError     the ledger could not be read or written
    │   └── LedgerBusy  another process holds it
    ├── EngineError     the engine that rolls up elsewhere isn't there, or failed
    └── ConservationError  a device-second or a cent is in no place or in two

Each message is one line that names the thing at fault, what was expected and the mend.
"""

from __future__ import annotations


class GpuLedgerError(Exception):
    """Base of every error that this project raises on purpose."""

    exit_status = 1


class UsageError(GpuLedgerError):
    """The command line is wrong."""

    exit_status = 2


class ConfigError(UsageError):
    """A key of the configuration is wrong.

    Args:
        where: file and key, for example ``gpuledger.yaml: rates[1].from``.
        what: what is wrong and what was expected.
        mend: what to write instead.
    """

    def __init__(self, where: str, what: str, mend: str = "") -> None:
        self.where, self.what, self.mend = where, what, mend
        super().__init__(f"{where}: {what}" + (f"; {mend}" if mend else ""))


class WorkError(GpuLedgerError):
    """The work failed although the request was right."""


def not_utf_8(path: object, error: UnicodeDecodeError) -> ConfigError:
    """The error of a file of settings that is not text."""
    return ConfigError(str(path), f"byte 0x{error.object[error.start]:02x} is not UTF-8", "save the file as UTF-8")


class SourceError(WorkError):
    """A source could not be read at all (single bad lines are findings instead)."""

    def __init__(self, source: str, what: str, mend: str = "") -> None:
        self.source, self.what, self.mend = source, what, mend
        super().__init__(f"{source}: {what}" + (f"; {mend}" if mend else ""))


class LedgerError(WorkError):
    """The ledger could not be read or written."""


class LedgerBusy(LedgerError):
    """Another process holds the ledger.

    Args:
        path: the ledger's file.
        holder: who holds it, as far as it is known.
    """

    def __init__(self, path: str, holder: str) -> None:
        self.path, self.holder = path, holder
        super().__init__(f"{path}: held by {holder}; wait for it to finish or stop it, then try again")


class EngineError(WorkError):
    """The engine that rolls up elsewhere isn't installed, can't be reached, or failed."""


class ConservationError(WorkError):
    """Device time or money doesn't add up: a fault of this program, never clamped away."""
