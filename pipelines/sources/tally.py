"""Counting what was wrong with a source while the rest of it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.tables import Finding


@dataclass
class Tally:
    """Problems of one source, counted per finding code and reason.

    Memory stays bounded however bad the input is: per reason only the count and the first place are kept.

    Args:
        source: what the findings name, usually the file's name.
    """

    source: str
    _problems: dict[tuple[str, str], tuple[int, int | None]] = field(default_factory=dict)

    def add(self, reason: str, line: int | None = None, *, count: int = 1, code: str = "bad_line") -> None:
        """Count ``count`` problems; ``reason`` must not hold values of the input."""
        counted, first = self._problems.get((code, reason), (0, line))
        self._problems[code, reason] = (counted + count, first)

    def findings(self) -> list[Finding]:
        """One finding per code and reason, in the order in which they were first seen."""
        return [
            Finding(code, counted, f"{self.source}: {reason}" + (f" (first in line {first})" if first else ""))
            for (code, reason), (counted, first) in self._problems.items()
            if counted
        ]
