"""A JSON answer of any size, member by member and, of its one long array, entry by entry."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from pipelines.sources.files import CHUNK_BYTES

MAX_VALUE_CHARS: Final = 1 << 28
"""Longest single value that is held: a job with tens of thousands of steps has some ten million characters."""

_DECODER: Final = json.JSONDecoder(strict=False)  # job names may hold control characters
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_WORD: Final = re.compile(r"[^,\[\]{}\s\"]*")
# The group is empty where the text ends inside a string.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[\]{}]', re.DOTALL)


class BrokenJson(ValueError):
    """The text is no JSON from ``line`` on, or ends too early."""

    def __init__(self, line: int, what: str) -> None:
        self.line, self.what = line, what
        super().__init__(f"line {line}: {what}")


@dataclass(frozen=True)
class Member:
    """One member of a top-level object, or one entry of the array.

    Args:
        document: which of the objects that stand one after another in the text, from 0.
        key: its name; an entry has the array's.
        line: where its value begins, from 1.
        value: of the array itself, before its entries, []; of an entry that is no JSON, None.
        entry: whether it is an entry of the array.
    """

    document: int
    key: str
    line: int
    value: Any
    entry: bool = False


def read_members(stream: BinaryIO, array: str) -> Iterator[Member]:
    """The members of each top-level object; those of the list ``array`` one by one, so that memory stays bounded.

    Raises:
        BrokenJson: what follows is no JSON object, breaks off, or has a value longer than ``MAX_VALUE_CHARS``.
    """
    text = _Window(stream)
    document = 0
    while start := text.peek():
        if start != "{":
            raise BrokenJson(text.line, "expected a JSON object")
        yield from _members(text, document, array)
        document += 1


def _members(text: _Window, document: int, array: str) -> Iterator[Member]:
    text.skip()
    while (start := text.peek()) != "}":
        if start == ",":
            text.skip()
            continue
        key = text.value() if start == '"' else None
        if key is None or text.peek() != ":":
            raise BrokenJson(text.line, "expected a key")
        text.skip()
        opening, line = text.peek(), text.line
        if key == array and opening == "[":
            yield Member(document, key, line, [])
            yield from _entries(text, document, array)
        else:
            yield Member(document, key, line, text.value())
    text.skip()


def _entries(text: _Window, document: int, array: str) -> Iterator[Member]:
    text.skip()
    while (start := text.peek()) != "]":
        if start == ",":
            text.skip()
            continue
        line = text.line
        try:
            value = text.value()
        except BrokenJson:
            if text.over:
                raise
            value = None
        yield Member(document, array, line, value, entry=True)
    text.skip()


class _Window:
    """The part of the text that is held, and a position in it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._text, self._at, self._ended = "", 0, False
        self.line = 1
        self.over = False
        """Whether nothing more can be read: the text ended inside a value, or the value is too long."""

    def peek(self) -> str:
        """The next character that is no white space; "" at the end."""
        while True:
            self._advance(_SPACE.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on():
                return ""

    def skip(self) -> None:
        """Pass the character that ``peek`` showed."""
        if self._at == len(self._text):
            self.over = True
            raise BrokenJson(self.line, "the text breaks off")
        self._at += 1

    def value(self) -> Any:
        """The value that begins here; a broken one is passed over before the error.

        Raises:
            BrokenJson: it is no JSON; ``over`` says whether anything follows it.
        """
        line = self.line
        while True:
            try:
                found, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                passed = _end_of_value(self._text, self._at)
                if passed is not None and (passed < len(self._text) or self._ended):
                    self._advance(max(passed, self._at + 1))
                    raise BrokenJson(line, "a value is no JSON") from None
            else:
                # A number at the end of what is held may go on.
                if end < len(self._text) or self._ended:
                    self._advance(end)
                    return found
            if len(self._text) - self._at > MAX_VALUE_CHARS:
                self.over = True
                raise BrokenJson(line, f"a value is longer than {MAX_VALUE_CHARS >> 20} Mi characters")
            if not self._read_on() and _end_of_value(self._text, self._at) is None:
                self.over = True
                raise BrokenJson(line, "the text breaks off in the middle of a value")

    def _advance(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _read_on(self) -> bool:
        """Hold more of the text, as much again as is held of the value; False at its end."""
        if self._ended:
            return False
        held = self._text[self._at :]
        chunk = self._stream.read(max(CHUNK_BYTES, len(held)))
        self._ended = not chunk
        self._text, self._at = held + self._decode(chunk, self._ended), 0
        return not self._ended


def _end_of_value(text: str, start: int) -> int | None:
    """Where a value ends by its brackets and quotes alone, whatever stands between them; None: not in ``text``."""
    if text[start : start + 1] not in {"{", "[", '"'}:
        return _WORD.match(text, start).end()  # type: ignore[union-attr]
    depth = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark[0] == '"':
            if not token[1]:
                return None
        else:
            depth += 1 if mark in "[{" else -1
        if depth == 0:
            return token.end()
    return None
