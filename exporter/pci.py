"""Cards that the kernel knows, whether or not the driver library still lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def cards_of_the_driver(sysfs: Path = Path("/sys")) -> int:
    """How many cards NVIDIA's kernel driver is bound to; a card that fell off the bus is still one of them.

    Cards that are handed to virtual machines are bound to another driver, and don't count; nor do a card's virtual
    functions, which are parts of it.
    """
    folder = sysfs / "bus/pci/drivers/nvidia"
    try:
        return sum(
            bool(_ADDRESS.fullmatch(entry.name)) and not (entry / "physfn").exists() for entry in folder.iterdir()
        )
    except OSError:
        return 0
