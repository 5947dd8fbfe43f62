"""YAML as written: text, numbers and line numbers, before anything is made of them.

The core schema of YAML 1.2 is read: ``no`` and ``on`` are text, ``010`` is a number written with three
digits, and a timestamp stays text, since its meaning depends on the file's own `timezone`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.errors import ConfigError

Location = tuple[str | int, ...]
"""Keys and list positions from the top: ``("tenants", 0, "id")``."""


class Number(str):
    """An unquoted number, as written. Text fields take it, money asks for quotes, counts parse it."""

    __slots__ = ()


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[Location, int]]:
    """The file's mapping and the line of each of its keys and list entries.

    Leaves are str, `Number`, bool or None.

    Raises:
        ConfigError: the file can't be read, or is no YAML mapping with distinct text keys.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(str(path), "no such file", "name another with --config FILE or GPULEDGER_CONFIG") from None
    except OSError as error:
        raise ConfigError(str(path), f"can't be read: {error.strerror}", "mend its path or permissions") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise ConfigError(f"{path}:{line}", what, "save the file as UTF-8") from None

    reading = _Reading(path)
    try:
        node = _composed(text)
        content = None if node is None else reading.value(node, ())
    except yaml.YAMLError as error:
        raise _syntax_error(path, text, error) from None
    except RecursionError:
        raise ConfigError(str(path), "nested too deeply", "flatten the lists and mappings") from None
    if content is None:
        raise ConfigError(str(path), "the file is empty", "write at least `currency: USD`")
    if not isinstance(content, dict):
        raise ConfigError(f"{path}:1", "expected a mapping at the top", "write `key: value` lines")
    return content, reading.lines


class _Loader(yaml.SafeLoader):
    """Resolves only what the core schema does: null, booleans, numbers."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own protocol)


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same by libyaml, where PyYAML was built with it."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


_LONGEST_LINE, _MOST = 2_000, 2_000
"""No file nests deeper than its longest line and its brackets: what may is read by the reader that notices."""


def _composed(text: str) -> yaml.Node | None:
    """Return a file's nodes.

    libyaml reads many times faster. PyYAML's own reader says better what is wrong, is stricter about tabs, and notices
    how deep it is, which libyaml doesn't before the stack ends.
    """
    shallow = (
        max(map(len, text.splitlines()), default=0) <= _LONGEST_LINE and text.count("[") + text.count("{") <= _MOST
    )
    if shallow and "\t" not in text:
        with suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=_FastLoader)
    return yaml.compose(text, Loader=_Loader)


_CORE_SCHEMA: Final = {
    "null": (r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    "float": (
        (
            r"[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|\.(?:inf|Inf|INF))$"
            r"|\.(?:nan|NaN|NAN)$"
        ),
        list("-+0123456789."),
    ),
}
for _tag, (_pattern, _first) in _CORE_SCHEMA.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern, re.ASCII), _first)

_MERGE: Final = "<<"
_MOST_REPEATED: Final = 10_000
"""Values that aliases may repeat: aliases of aliases are how a small file fills all memory."""


class _Reading:
    """Turns nodes into values, and remembers where each stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[Location, int] = {}
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._repeated = 0

    def value(self, node: yaml.Node, at: Location) -> Any:
        self.lines.setdefault(at, node.start_mark.line + 1)
        if id(node) in self._open:
            raise self._error(node, at, "an alias holds itself", "write the value out")
        if id(node) in self._seen:
            self._repeated += 1
            if self._repeated > _MOST_REPEATED:
                what = f"aliases repeat more than {_MOST_REPEATED:,} values"
                raise self._error(node, at, what, "write the values out, without aliases of aliases")
        self._seen.add(id(node))
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, at)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*at, position)) for position, item in enumerate(node.value)]
            return self._scalar(node, at)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, at, "a key is a list or a mapping", "write text as key")
            key = str(key_node.value)
            if key == _MERGE:
                raise self._error(key_node, (*at, key), "merge keys are not read", "write the keys out")
            if key in mapping:
                first = self.lines[(*at, key)]
                raise self._error(key_node, (*at, key), f"stands twice, first on line {first}", "keep one of them")
            self.lines[(*at, key)] = key_node.start_mark.line + 1
            mapping[key] = self.value(value_node, (*at, key))
        return mapping

    def _scalar(self, node: yaml.Node, at: Location) -> str | bool | None:
        text = str(node.value)
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "str":
                return text
            case "float" | "int":
                return Number(text)
            case "bool":
                return text.lower() == "true"
            case "null":
                return None
            case other:
                raise self._error(node, at, f"tag {other!r} is not read", "write plain text, numbers or true/false")

    def _error(self, node: yaml.Node, at: Location, what: str, mend: str) -> ConfigError:
        return ConfigError(f"{self.path}:{node.start_mark.line + 1}: {key_path(at)}", what, mend)


def key_path(at: Location) -> str:
    """``tenants[0].match`` of ``("tenants", 0, "match")``."""
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "top level"


def _syntax_error(path: Path, text: str, error: yaml.YAMLError) -> ConfigError:
    mend = "look there, and just above, for a missing quote, colon or bracket, or a tab"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        what = error.problem or "syntax error"
        if isinstance(error, yaml.composer.ComposerError):
            what, mend = what.removeprefix("but "), "keep one document, and each alias below its anchor"
    else:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        what = getattr(error, "reason", "syntax error")
    return ConfigError(f"{path}:{line}", f"not YAML: {' '.join(what.split())}", mend)
