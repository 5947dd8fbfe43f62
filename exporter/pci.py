"""Cards that the kernel knows, whether or not the driver library still lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def cards_of_the_driver(sysfs: Path = Path("/sys")) -> frozenset[str]:
    """PCI addresses of the cards that NVIDIA's kernel driver is bound to; one that fell off the bus is still bound.

    Cards that are handed to virtual machines are bound to another driver, and don't count; nor do a card's virtual
    functions, which are parts of it.
    """
    folder = sysfs / "bus/pci/drivers/nvidia"
    try:
        return frozenset(
            entry.name
            for entry in folder.iterdir()
            if _ADDRESS.fullmatch(entry.name) and not (entry / "physfn").exists()
        )
    except OSError:
        return frozenset()
