"""The outlook of a draft as tables for its PDF: estimates beside what is charged so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, time
from typing import Any, Final
from zoneinfo import ZoneInfo

from pipelines.book.document import Statement
from pipelines.book.figures import UNKNOWN, amount, percent, quantity
from pipelines.book.words import Words
from pipelines.outlook.model import Outlook

SHOWN_ANOMALIES: Final = 5
SHOWN_CAUSES: Final = 2
_METHODS: Final = {"run_rate": "at this month's run rate", "seasonal": "by weekday"}


def outlook_tables(s: Statement, words: Words) -> dict[str, Any] | None:
    """Return a note and tables of text, first the head, then the rows; None: the statement has no outlook."""
    if s.outlook is None:
        return None
    shown = _Shown(s, s.outlook, words)
    found = [
        shown.table(
            ("Projection; 8 of 10 months end between low and high", "Expected", "Low", "High"), shown.projections()
        ),
        shown.table(("Budget", "Budgeted", "Spent", "Used up on"), shown.budgets()),
        shown.table(("Quota or reservation", "GPUs", "Mean", "Peak", "Utilisation"), shown.entitlements()),
        shown.table(("Cost of a GPU-hour", "Held", "Active", "Tensor-active"), shown.unit_costs()),
        shown.table(("Unusual hours", "To", "GPU-h held", "Usual"), shown.anomalies()),
    ]
    tables = [table for table in found if table["rows"]]
    if not tables:
        return None
    note = f"{words.label('estimates, no charges; amounts in')} {shown.currency}"
    return {"title": words.label("Looking ahead"), "note": note, "tables": tables}


class _Shown:
    """One outlook in one language; its amounts are in the ledger's currency."""

    def __init__(self, s: Statement, outlook: Outlook, words: Words) -> None:
        self._outlook, self._words = outlook, words
        self._zone = ZoneInfo(s.period.timezone)
        self.currency = s.currency if s.exchange is None else s.exchange.currency

    def table(self, head: Sequence[str], rows: Iterator[list[str]]) -> dict[str, Any]:
        return {"head": [self._words.label(text) for text in head], "rows": list(rows)}

    def projections(self) -> Iterator[list[str]]:
        for p in self._outlook.projections:
            name = f"{self._kind(p.kind)}{self._words.comma} {self._words.label(_METHODS[p.method])}"
            yield [name, *(self._value(p.kind, value) for value in (p.expected, p.low, p.high))]

    def budgets(self) -> Iterator[list[str]]:
        for b in self._outlook.budgets:
            gone = self._words.label("not this month")
            if b.exhausted_on is not None:
                gone = self._words.date(datetime.combine(b.exhausted_on, time()), time=False)
            yield [self._kind(b.kind), self._value(b.kind, b.budget), self._value(b.kind, b.spent), gone]

    def entitlements(self) -> Iterator[list[str]]:
        for e in self._outlook.entitlements:
            name = self._words.label("Quota" if e.kind == "quota" else "Reservation")
            figures = (str(e.gpus), quantity(e.mean_gpus, 1), quantity(e.peak_gpus, 1), percent(e.utilization))
            yield [f"{name} {e.name}".strip() if e.kind == "reservation" else name, *map(self._figure, figures)]

    def unit_costs(self) -> Iterator[list[str]]:
        for cost in self._outlook.unit_costs:
            values = (cost.allocated, cost.active, cost.tensor_active)
            yield [self._words.label("This month so far"), *(self._figure(amount(v, self.currency)) for v in values)]

    def anomalies(self) -> Iterator[list[str]]:
        dearest = sorted(self._outlook.anomalies, key=lambda a: -abs(a.score))[:SHOWN_ANOMALIES]
        for a in sorted(dearest, key=lambda a: a.start):
            causes = self._words.comma.join(f" {c.workload}" for c in a.causes[:SHOWN_CAUSES])
            start, end = (self._words.date(t.astimezone(self._zone)) for t in (a.start, a.end))
            hours = (quantity(a.gpu_hours, 1), quantity(a.usual_gpu_hours, 1))
            yield [f"{start}{self._words.comma}{causes}" if causes else start, end, *map(self._figure, hours)]

    def _kind(self, kind: str) -> str:
        return self._words.label("GPU-hours" if kind == "gpu_hours" else "Money")

    def _value(self, kind: str, value: str) -> str:
        return self._figure(amount(value, self.currency) if kind == "money" else quantity(float(value), 1))

    def _figure(self, text: str) -> str:
        return self._words.label(text) if text == UNKNOWN else self._words.number(text)
