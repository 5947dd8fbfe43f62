"""A static file: owners that somebody wrote down.

::

    owners:
      - {device: GPU-6b4e…, workload: demo-wall, user: ada}
      - {device: "3", job: "8812"}        # NVML index
      - {device: MIG-0f2c…, namespace: lab, pod: notebook-0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.devices import Reading
from exporter.errors import SourceError
from exporter.identity import Identities
from exporter.owners.claims import Claim, Claims, Owner

_OWNER_KEYS: Final = tuple(field.name for field in fields(Owner) if field.name != "pod_labels")


class StaticAdapter:
    """Claims from a file, which is read again on every pass."""

    name = "static"
    evidence = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        """The claims that the file makes. Raises SourceError."""
        del readings
        claims, unresolved = [], []
        for number, entry in enumerate(self._entries()):
            where = f"{self._path}: owners[{number}]"
            if not isinstance(entry, dict) or "device" not in entry:
                raise SourceError(where, "a mapping with `device` was expected")
            for key in entry.keys() - {"device", *_OWNER_KEYS}:
                raise SourceError(where, f"unknown key {key!r}", f"use device and {', '.join(_OWNER_KEYS)}")
            device = str(entry["device"])
            target = identities.resolve(device) or identities.by_index(device)
            if target is None:
                unresolved.append(device)
            else:
                named: dict[str, Any] = {key: str(entry[key]) for key in entry.keys() - {"device"}}
                claims.append(Claim(target, Owner(**named)))
        return Claims(tuple(claims), tuple(unresolved))

    def _entries(self) -> list[Any]:
        try:
            document = yaml.safe_load(self._path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SourceError(str(self._path), f"cannot be read ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise SourceError(str(self._path), "is not UTF-8", "save the file as UTF-8") from error
        except yaml.YAMLError as error:
            raise SourceError(str(self._path), f"not YAML: {' '.join(str(error).split())}") from error
        if not isinstance(document, dict) or not isinstance(document.get("owners"), list):
            raise SourceError(str(self._path), "a list `owners` was expected")
        return list(document["owners"])
