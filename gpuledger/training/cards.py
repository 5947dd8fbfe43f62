"""Which GPU this process works on, asked of a framework that is loaded already, and never so that CUDA starts."""

from __future__ import annotations

import sys


def current_card() -> tuple[str | None, str | None]:
    """Return the name and UUID of the GPU that PyTorch works on; None where it uses none, or doesn't say."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None, None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    uuid = getattr(properties, "uuid", None)  # PyTorch 2.4 and newer
    name = str(properties.name)
    if uuid is None or " MIG " in name:
        return name, None  # what it calls the UUID of an instance depends on its version
    text = str(uuid)
    return name, text if text.startswith("GPU-") else f"GPU-{text}"
