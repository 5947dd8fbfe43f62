"""`python -m tests.oracle DIR` or `python -m tests.oracle replay DIR --json`: the oracle's report as JSON."""

from __future__ import annotations

import json
import sys

from tests.oracle.report import replay

if __name__ == "__main__":
    directory = next(a for a in sys.argv[1:] if a not in ("replay", "--json"))
    sys.stdout.write(json.dumps(replay(directory), indent=1) + "\n")
