"""What was found wrong with the month's input."""

from __future__ import annotations

from app.scope import Scope
from pipelines.findings import findings_of, merge_findings
from pipelines.instants import to_ms
from pipelines.tables import Finding

_OF_MONTH = """
-- grain: finding of a month; one whose time nobody knows is every month's
SELECT * FROM finding
WHERE "start" IS NULL OR ("start" < $until AND "end" > $since)
"""


def findings_of_month(scope: Scope) -> list[Finding]:
    """Return the month's findings, one per code, the most frequent first."""
    rows = scope.reader.ask(_OF_MONTH, {"since": to_ms(scope.month.start), "until": to_ms(scope.month.end)})
    return sorted(merge_findings(findings_of(rows)), key=lambda f: (-f.count, f.code))
