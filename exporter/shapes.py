"""What a document of settings may hold, as a table: which keys there are, of which type, in which range.

A shape reads a value and gives it in the type that it promises, or raises ConfigError with the place, what was found
and what was expected.
"""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from exporter.errors import ConfigError

_SHOWN: Final = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60


class Shape(Protocol):
    """One kind of value."""

    @property
    def expected(self) -> str:
        """What to write, for people: "a whole number from 1 to 8"."""

    def read(self, value: Any, where: str) -> Any:
        """The value in its own type. Raises ConfigError."""


def shown(value: Any) -> str:
    """A value as an error shows it, in one short line."""
    return " ".join(_SHOWN.repr(value).split())


def _refuse(value: Any, where: str, shape: Shape) -> NoReturn:
    raise ConfigError(where, f"{shown(value)} was found, {shape.expected} was expected")


def unknown(word: object, known: Collection[str], where: str, what: str = "key") -> ConfigError:
    """The error of a word that is none of those known, with the one that was probably meant."""
    near = difflib.get_close_matches(str(word), known, n=1)
    few = len(known) <= 20
    mend = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}" if few else "see the docs"
    return ConfigError(where, f"unknown {what} {shown(word)}", mend)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a pattern fits.

    Args:
        expected: what to write.
        pattern: a regular expression for the whole text; by default it isn't empty.
        numbers: whole numbers are taken for it too, as people write ids without quotes.
        secret: an error doesn't show what was found.
        lines: it may have several.
    """

    expected: str = "text"
    pattern: str = r".+"
    numbers: bool = False
    secret: bool = False
    lines: bool = False

    def read(self, value: Any, where: str) -> str:
        """The text."""
        if self.numbers and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        good = isinstance(value, str) and (self.lines or value.isprintable())
        if not good or not re.fullmatch(self.pattern, value, re.DOTALL):
            if self.secret:
                raise ConfigError(where, f"{self.expected} was expected")
            _refuse(value, where, self)
        return str(value)


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number in a range; ``above`` excludes the lower end."""

    minimum: float = 0.0
    maximum: float = math.inf
    whole: bool = False
    above: bool = False

    @property
    def expected(self) -> str:
        """The kind of number and its range."""
        kind = "a whole number" if self.whole else "a number"
        if self.above:
            return f"{kind} above {self.minimum:g}"
        limits = f" from {self.minimum:g}" if math.isfinite(self.minimum) else ""
        return f"{kind}{limits}" + (f" to {self.maximum:g}" if math.isfinite(self.maximum) else " on" * bool(limits))

    def read(self, value: Any, where: str) -> float:
        """The number."""
        kinds = (int,) if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not _finite(value):
            _refuse(value, where, self)
        if not self.minimum <= value <= self.maximum or (self.above and value == self.minimum):
            _refuse(value, where, self)
        return value if self.whole else float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    expected: str = "true or false"

    def read(self, value: Any, where: str) -> bool:
        """The flag."""
        if not isinstance(value, bool):
            _refuse(value, where, self)
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]
    what: str = "choice"

    @property
    def expected(self) -> str:
        """The words."""
        return f"one of {', '.join(self.words)}"

    def read(self, value: Any, where: str) -> str:
        """The word."""
        if not isinstance(value, str):
            _refuse(value, where, self)
        if value not in self.words:
            raise unknown(value, self.words, where, self.what)
        return value


@dataclass(frozen=True, slots=True)
class Optional:
    """A value, or null for none."""

    shape: Shape

    @property
    def expected(self) -> str:
        """The value's, or null."""
        return f"{self.shape.expected} or null"

    def read(self, value: Any, where: str) -> Any:
        """The value or None."""
        if value is None:
            return None
        return self.shape.read(value, where)


@dataclass(frozen=True, slots=True)
class Either:
    """What one of two shapes takes: the first if it is a mapping or a number, else the other."""

    first: Shape
    kind: type | tuple[type, ...]
    other: Shape

    @property
    def expected(self) -> str:
        """Both."""
        return f"{self.first.expected} or {self.other.expected}"

    def read(self, value: Any, where: str) -> Any:
        """By the shape that the value's type chooses."""
        if isinstance(value, self.kind) and not isinstance(value, bool):
            return self.first.read(value, where)
        if not isinstance(value, str):
            _refuse(value, where, self)
        return self.other.read(value, where)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one shape; null is an empty one."""

    item: Shape
    expected: str = "a list"

    def read(self, value: Any, where: str) -> list[Any]:
        """The values."""
        if value is None:
            return []
        if not isinstance(value, list):
            _refuse(value, where, self)
        return [self.item.read(item, f"{where}[{number}]") for number, item in enumerate(value)]


@dataclass(frozen=True, slots=True)
class MappingOf:
    """Names that people choose, with a value of one shape each; null is an empty one."""

    value: Shape
    name: Shape = Text(numbers=True)
    expected: str = "a mapping"

    def read(self, value: Any, where: str) -> dict[str, Any]:
        """The values by name."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            _refuse(value, where, self)
        return {self.name.read(name, where): self.value.read(item, f"{where}.{name}") for name, item in value.items()}


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with keys of its own, each of its own shape; those absent are absent in what is read.

    Args:
        keys: the shape of each key.
        required: keys that must be there.
        what: what a key is called in an error.
        nullable: null is an empty mapping.
    """

    keys: Mapping[str, Shape]
    required: tuple[str, ...] = ()
    what: str = "key"
    nullable: bool = False
    expected: str = "a mapping"

    def read(self, value: Any, where: str) -> dict[str, Any]:
        """The values of the keys that are there."""
        return self._read(value, where, f"{where}.")

    def read_file(self, document: Any, path: Path) -> dict[str, Any]:
        """The values of a whole file. Raises ConfigError."""
        return self._read(document, str(path), f"{path}: ")

    def _read(self, value: Any, where: str, inside: str) -> dict[str, Any]:
        if value is None and self.nullable:
            return {}
        if not isinstance(value, dict):
            _refuse(value, where, self)
        for key in value:
            if key not in self.keys:
                raise unknown(key, self.keys, where, self.what)
        for key in self.required:
            if key not in value:
                raise ConfigError(f"{inside}{key}", "is missing", f"write {self.keys[key].expected}")
        return {key: self.keys[key].read(item, f"{inside}{key}") for key, item in value.items()}
