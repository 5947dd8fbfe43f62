"""What statements say, in English and in Persian: labels, digits, dates and phrases.

A closed statement is kept in English; another language is made from its figures, which stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from persiantools import digits
from persiantools.jdatetime import JalaliDate

from exporter.errors import UsageError
from pipelines.book.document import Statement
from pipelines.book.notes import about_coverage, observed
from pipelines.book.words_fa import LABELS, MEANINGS, NOTES, PHRASES

LocaleName = Literal["en", "fa"]
LOCALES: Final = ("en", "fa")
_SEPARATORS: Final = str.maketrans({",": "٬", ".": "٫", "%": "٪"})


@dataclass(frozen=True)
class Words:
    """How one language says what a statement says; a label that isn't translated is its English self."""

    locale: LocaleName
    labels: Mapping[str, str]
    phrases: Mapping[str, str]

    @property
    def right_to_left(self) -> bool:
        """Whether it is written from right to left."""
        return self.locale == "fa"

    @property
    def comma(self) -> str:
        """What stands between the parts of a phrase."""
        return "،" if self.locale == "fa" else ","

    def label(self, text: str) -> str:
        """Return a heading or the name of a figure."""
        return self.labels.get(text, text)

    def phrase(self, text: str) -> str:
        """Return a description with the known phrases of it translated; names of people and things stay."""
        if self.locale == "en":
            return text
        translated = text
        for known, said in self.phrases.items():
            translated = re.sub(rf"(?<![\w-]){re.escape(known)}(?![\w-])", said, translated)
        return text if translated == text else translated.replace(", ", f"{self.comma} ")

    def number(self, text: str) -> str:
        """Return a formatted figure in the digits of the language."""
        return digits.en_to_fa(text.translate(_SEPARATORS)) if self.locale == "fa" else text

    def date(self, at: datetime, *, time: bool = True) -> str:
        """Return a local time; where the calendar is another one, with its date beside the Gregorian one."""
        clock = f" {at:%H:%M}" if time else ""
        if self.locale == "en":
            return f"{at:%Y-%m-%d}{clock}"
        jalali = JalaliDate.to_jalali(at.date()).strftime("%Y/%m/%d")  # type: ignore[no-untyped-call]
        return digits.en_to_fa(f"{jalali}{clock} ({at:%Y-%m-%d})")

    def notes(self, statement: Statement) -> list[str]:
        """Return what a reader must know, and what the figures mean."""
        if self.locale == "en":
            return [*statement.notes, *MEANINGS_EN]
        found = []
        said = about_coverage(statement.coverage, statement.utilization)
        if said == "partly" and statement.coverage is not None:
            found.append(NOTES["coverage"].format(self.number(observed(statement.coverage))))
        elif said == "never":
            found.append(NOTES["unobserved"])
        if any("no price" in note for note in statement.notes):
            found.append(NOTES["unpriced"])
        billed = (_BILLED.match(note) for note in statement.notes)
        found += [NOTES["billing"].format(self.number(match[1])) for match in billed if match]
        if any(note.startswith(("Adds up", "As known now")) for note in statement.notes):
            found.append(NOTES["summed"])
        stamp = statement.exchange
        if stamp is not None:
            source = f" ({stamp.source})" if stamp.source else ""
            found.append(
                NOTES["exchange"].format(
                    total=self.number(stamp.total), ledger=stamp.currency, rate=self.number(stamp.rate), source=source
                )
            )
        return [*found, *MEANINGS]


_BILLED: Final = re.compile(r"Slurm billed ([\d,.]+) billing-hours")
MEANINGS_EN: Final = (
    "GPU-h held: the time that GPUs were allocated to you, used or not; it is what is charged.",
    "GPU-h used: hours held × mean engine activity of what was observed. Utilisation: used ÷ held, of the observed.",
    "Waste: held and not used, at the on-demand rate. It is no charge of its own.",
    "Coverage: the share of the held time with a valid sample.",
    "Cost of what was held: usage, and the reserved hours used at their reservation's rate.",
    "Parts under a line add up to it, and lines to the total; each line is rounded once.",
)
ENGLISH: Final = Words("en", {}, {})
PERSIAN: Final = Words("fa", LABELS, PHRASES)


def words_of(locale: str) -> Words:
    """Return a language's words.

    Raises:
        UsageError: there are none of it.
    """
    found = {"en": ENGLISH, "fa": PERSIAN}.get(locale)
    if found is None:
        raise UsageError(f"--locale {locale}: expected one of {', '.join(LOCALES)}")
    return found
