"""Programs that some tests start, and the Debian package that brings each.

A test says ``@pytest.mark.needs_program("promtool")`` and is skipped, with the reason, where that is absent.
"""

from __future__ import annotations

import shutil
from typing import Final

PACKAGES: Final = {
    "amtool": "prometheus-alertmanager",
    "chromium": "chromium",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "promtool": "prometheus",
    "victoria-metrics": "victoria-metrics",
}


def why_missing(program: str) -> str | None:
    """Why a test that needs the program can't run, and what installs it; None where it is there."""
    if shutil.which(program):
        return None
    return f"{program} is not installed: apt-get install {PACKAGES[program]}"
