"""Files of settings: YAML that people write, read whole and once, with the place of what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.errors import ConfigError, not_utf_8

_BYTES_AT_MOST: Final = 4 << 20
"""No file of settings is larger; a device file or a log given by mistake is."""


def load_document(path: Path, mend: str = "") -> Any:
    """What a YAML file holds.

    Args:
        path: the file.
        mend: what to do where it can't be read.

    Raises:
        ConfigError: it can't be read, is too large, not UTF-8 or not YAML, or a key stands twice in a mapping.
    """
    return _parse(read_settings(path, mend), path)


def read_settings(path: Path, mend: str = "") -> str:
    """The text of a file of settings. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            content = file.read(_BYTES_AT_MOST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(str(path), f"cannot be read ({getattr(error, 'strerror', error)})", mend) from error
    if len(content) > _BYTES_AT_MOST:
        raise ConfigError(str(path), "is larger than 4 MiB", "give a file of settings")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf_8(path, error) from error


def _parse(text: str, path: Path) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(str(path), f"not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(str(path), "not YAML: nested too deeply") from error


class _Loader(yaml.SafeLoader):
    """YAML's core schema: null, true and false, plain numbers; all else is text.

    YAML 1.1 makes 123 of a job ``12_3`` and a truth value of a user ``no``. PyYAML keeps the last of two equal keys
    and says nothing; here that is an error.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own protocol)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, each of whose keys stands once."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != _MERGE:
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_MERGE: Final = "<<"
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]{0,30})", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
     list("-+.0123456789")),
    ("merge", _MERGE, ["<"]),
):  # fmt: skip
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$", re.ASCII), _first)
