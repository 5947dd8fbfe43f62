"""What was found wrong with the input."""

from __future__ import annotations

import json
from typing import Final

from app.scope import Scope
from pipelines.findings import findings_of, merge_findings
from pipelines.tables import Finding

_IN_SPAN: Final = """
-- grain: finding of the span; one whose time nobody knows is in every span
SELECT * FROM finding
WHERE "start" IS NULL OR ("start" < $until AND "end" > $since)
"""


_RATED: Final = ("unresolved_owner", "unknown_price")
"""What is found where usage is rated stands in each month's report alone."""
_REPORTS: Final = "SELECT report FROM period_report WHERE period BETWEEN $first_month AND $last_month"


def findings_of_span(scope: Scope) -> list[Finding]:
    """Return the span's findings, one per code, the most frequent first."""
    found = findings_of(scope.ask(_IN_SPAN))
    if scope.has("period_report"):
        told = [f for (text,) in scope.ask(_REPORTS).rows() for f in json.loads(text)["findings"]]
        found = [f for f in found if f.code not in _RATED]
        found += [Finding(f["code"], f["count"], f["detail"]) for f in told if f["code"] in _RATED]
    return sorted(merge_findings(found), key=lambda f: (-f.count, f.code))
