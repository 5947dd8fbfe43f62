"""The metering itself: exporters, Prometheus, pipeline, coverage."""

from __future__ import annotations

from dashboards import look, variables
from dashboards.board import Board, Context
from dashboards.panels import Query, Row, lines, stat, timeline
from dashboards.queries import stack as q


def stack(_context: Context) -> Board:
    """What isn't seen can't be billed: where to look when numbers are in doubt."""
    late: look.Steps = ((look.GREEN, None), (look.AMBER, 1800), (look.RED, 3600))
    now = [
        stat("Exporters up", "Targets that answered the last scrape.", q.EXPORTERS_UP, look.COUNT),
        stat("Exporters down", "Targets that didn't.", q.EXPORTERS_DOWN, look.COUNT, look.ANY_IS_BAD),
        stat("Coverage", "Held devices whose activity is known.", q.COVERED, look.RATIO, look.NEARLY_ALL),
        stat("Ledger behind", "Since the pipeline's last good pass.", q.LEDGER_AGE, look.SECONDS, late),
        stat("Failed passes", "Passes of the pipeline that failed in the last hour.", q.PASSES_FAILED, look.COUNT,
             look.ANY_IS_ODD, decimals=0),
        stat("Unattributed", "GPUs held by workloads of no tenant.", q.UNATTRIBUTED, look.COUNT, look.ANY_IS_ODD,
             decimals=1),
    ]  # fmt: skip
    return Board(
        uid="gpuledger-stack",
        title="The stack itself",
        description="Exporters, Prometheus, pipeline, coverage.",
        audience="operators",
        variables=[variables.cluster(), variables.node()],
        app_page="data",
        rows=[
            Row("Now", now, height=4),
            Row("Exporters", [
                lines("Age of values", "Age of a card's values when scraped.", [Query(q.AGE, "{{node}}")],
                      look.SECONDS),
                lines("Time of a pass", "How long reading all cards of a node takes.", [Query(q.PASS, "{{node}}")],
                      look.SECONDS),
                lines("Rejected values", "Values a second that can't have been measured.",
                      [Query(q.REJECTED, "{{node}}")], "cps"),
                lines("Scrape duration", "How long Prometheus waits for an exporter.", [Query(q.SCRAPES, "{{job}}")],
                      look.SECONDS),
            ]),
            Row("Owners and coverage", [
                timeline("Owner sources", "Whether the exporter can ask who holds GPUs.",
                         Query(q.ADAPTERS, "{{node}} {{adapter}}"), {0: ("down", look.RED), 1: ("up", look.GREEN)}),
                lines("Unresolved devices", "Allocated devices that match no GPU.", [Query(q.UNRESOLVED, "{{node}}")],
                      look.COUNT),
                lines("Coverage", "Held devices whose activity is known.",
                      [Query(q.COVERAGE_BY_CLUSTER, "{{cluster}}")], look.RATIO, highest=1),
                lines("Cards that answer", "Cards present.", [Query(q.PRESENT, "{{cluster}}")], look.COUNT),
            ]),
            Row("Pipeline", [
                lines("Sources behind", "How far behind now each live source has been read.",
                      [Query(q.LAG, "{{source}}")], look.SECONDS),
                lines("Taken in an hour", "Samples and records that passes took in.", [Query(q.ROWS, "{{kind}}")],
                      look.COUNT),
                lines("Findings in an hour", "What was found wrong in what was taken in, by what it is.",
                      [Query(q.FINDINGS, "{{code}}")], look.COUNT),
            ]),
            Row("Passes of the pipeline", [
                lines("Passes an hour", "By how they ended.", [Query(q.PASSES, "{{result}}")], look.COUNT),
                lines("Time of a pass of the pipeline", "How long the last pass took.", [Query(q.LEDGER_PASS, "pass")],
                      look.SECONDS),
            ]),
            Row("Prometheus", [
                lines("Rule evaluation", "How long GPULedger's rule groups take, and how often they fail.",
                      [Query(q.RULES, "{{rule_group}}"), Query(q.RULE_FAILURES, "failures in an hour")], look.SECONDS),
                lines("Series in Prometheus", "Series in memory.", [Query(q.SERIES, "series")], look.COUNT),
            ]),
        ],
    )  # fmt: skip
