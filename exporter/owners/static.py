"""A static file: owners that somebody wrote down.

::

    owners:
      - {device: GPU-6b4e…, workload: demo-wall, user: ada}
      - {device: 3, job: 8812}        # NVML index
      - {device: MIG-0f2c…, namespace: lab, pod: notebook-0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from exporter.devices import Reading
from exporter.documents import load_document
from exporter.errors import ConfigError, SourceError
from exporter.identity import Identities
from exporter.owners.claims import Claim, Claims, Owner
from exporter.shapes import ListOf, Record, Text

_NAME: Final = Text("text, in quotes if need be,", numbers=True)
_OWNER_KEYS: Final = tuple(field.name for field in fields(Owner) if field.name != "pod_labels")
_FILE: Final = Record(
    {"owners": ListOf(Record({"device": _NAME} | dict.fromkeys(_OWNER_KEYS, _NAME), required=("device",)))},
    required=("owners",),
)


def load_owners(path: Path) -> list[dict[str, str]]:
    """The entries of a file: a device and who owns it. Raises ConfigError."""
    entries: list[dict[str, str]] = _FILE.read_file(load_document(path, "give the path of a file of owners"), path)[
        "owners"
    ]
    for number, entry in enumerate(entries):
        if len(entry) == 1:
            what = f"device {entry['device']} has no owner"
            raise ConfigError(f"{path}: owners[{number}]", what, f"name one by {', '.join(_OWNER_KEYS)}")
    return entries


class StaticAdapter:
    """Claims from a file, which is read again on every pass."""

    name = "static"
    evidence = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        """The claims that the file makes. Raises SourceError."""
        del readings
        try:
            entries = load_owners(self._path)
        except ConfigError as error:
            # It was right at the start: now a source fails, and no command line is wrong.
            raise SourceError(error.where, error.what, error.mend) from error
        claims, unresolved = [], []
        for entry in entries:
            device = entry["device"]
            target = identities.resolve(device) or identities.by_index(device)
            if target is None:
                unresolved.append(device)
            else:
                named: dict[str, Any] = {key: value for key, value in entry.items() if key != "device"}
                claims.append(Claim(target, Owner(**named)))
        return Claims(tuple(claims), tuple(unresolved))
