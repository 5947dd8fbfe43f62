"""The configuration as it might be: another price or idle policy, or another file altogether."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.errors import ConfigError
from pipelines.config import Config, load

POLICIES: Final = ("platform", "proportional", "even", "owner")
PRICES: Final = ("on_demand", "reserved", "overflow", "spot")


def supposed(config: Config, *, policy: str | None, percent: int) -> Config:
    """Return a configuration with another idle policy, or with all prices changed by a percentage.

    Raises:
        ConfigError: it can't be so.
    """
    try:
        content: dict[str, Any] = yaml.safe_load(config.path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(str(config.path), f"can't be read: {error}", "run `gpuledger check`") from None
    if policy is not None:
        content["idle"] = {**(content.get("idle") or {}), "policy": policy}
    if percent:
        factor = 1 + Decimal(percent) / 100
        for entry in [*(content.get("rates") or []), *(content.get("reservations") or [])]:
            for name in (*PRICES, "rate"):
                if entry.get(name) is not None:
                    entry[name] = format(Decimal(str(entry[name])) * factor, "f")
    return loaded(yaml.safe_dump(content, allow_unicode=True))


def loaded(text: str) -> Config:
    """Return a configuration from its text.

    Raises:
        ConfigError: it is wrong; the message names the key and the mend.
    """
    with tempfile.TemporaryDirectory(prefix="gpuledger-whatif-") as folder:
        path = Path(folder) / "gpuledger.yaml"
        path.write_text(text)
        return load(path)
