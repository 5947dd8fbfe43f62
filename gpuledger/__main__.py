"""``python -m gpuledger``: the console script, safe to start in any folder.

``python -m`` puts the working directory first on ``sys.path``, and the wings have plain names: a user's own
``app.py``, ``alerts/`` or ``exporter.py`` lying there would be imported in place of ours. So that entry goes before a
wing is imported. (The console script never has it.)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _forget_working_directory() -> None:
    here = str(Path.cwd())
    ours = str(Path(__file__).resolve().parent.parent)
    # Started from the folder that holds this very package, the entry is how the wings are found at all.
    if here != ours and sys.path and sys.path[0] in ("", here):
        del sys.path[0]
        os.environ.setdefault("PYTHONSAFEPATH", "1")  # and for the processes that we start


if __name__ == "__main__":
    _forget_working_directory()

    from gpuledger.cli import main

    sys.exit(main())
