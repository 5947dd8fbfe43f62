"""What was found wrong with the input."""

from __future__ import annotations

from typing import Final

from app.scope import Scope
from pipelines.findings import findings_of, merge_findings
from pipelines.tables import Finding

_IN_SPAN: Final = """
-- grain: finding of the span; one whose time nobody knows is in every span
SELECT * FROM finding
WHERE "start" IS NULL OR ("start" < $until AND "end" > $since)
"""


def findings_of_span(scope: Scope) -> list[Finding]:
    """Return the span's findings, one per code, the most frequent first."""
    rows = scope.ask(_IN_SPAN)
    return sorted(merge_findings(findings_of(rows)), key=lambda f: (-f.count, f.code))
