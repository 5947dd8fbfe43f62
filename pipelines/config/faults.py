"""Validation errors as one line that names file, line, key, fault and mend."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from exporter.errors import ConfigError
from pipelines.config.reading import Location, key_path

Fault = tuple[Location, str, str]
_EXPECTED: Final = {
    "tuple_type": ("expected a list", 'put "- " before each entry'),
    "model_type": ("expected a mapping", "write `key: value` lines"),
    "dict_type": ("expected a mapping", "write `key: value` lines"),
    "mapping_type": ("expected a mapping", "write `key: value` lines"),
    "string_type": ("expected text", "write it in quotes"),
    "string_too_short": ("an empty value", "write some text, or take the key out"),
    "bool_type": ("expected true or false", "write true or false"),
    "bool_parsing": ("expected true or false", "write true or false"),
}
_EXAMPLES: Final = {"currency": ", such as currency: USD", "on_demand": ', such as on_demand: "2.50"'}


def config_error(
    error: ValidationError, model: type[BaseModel], path: Path, lines: Mapping[Location, int]
) -> ConfigError:
    """The first fault by its line in the file; of several, the message counts the others."""
    faults = list(_faults(error, model))
    (at, what, mend), others = min(faults, key=lambda fault: _line(fault[0], lines)), len(faults) - 1
    if others:
        mend += f" (and {others} more)"
    return ConfigError(f"{path}:{_line(at, lines)}: {key_path(at)}", what, mend)


def _faults(error: ValidationError, model: type[BaseModel]) -> Iterator[Fault]:
    items = error.errors(include_url=False)
    misspelt = {
        (*at[:-1], near)
        for at in (item["loc"] for item in items if item["type"] == "extra_forbidden")
        if (near := _near(str(at[-1]), _keys(at[:-1], model)))
    }
    for item in items:
        at: Location = tuple(item["loc"])
        context: dict[str, Any] = item.get("ctx", {})
        match item["type"]:
            case "fault":
                yield (*at, context["key"]) if context["key"] else at, context["what"], context["mend"]
            case "faults":
                yield from context["faults"]
            case "missing":
                if at not in misspelt:
                    yield at, "missing", f"add it{_EXAMPLES.get(str(at[-1]), '')}"
            case "extra_forbidden":
                yield at, "unknown key", _suggestion(str(at[-1]), _keys(at[:-1], model), "known here")
            case "literal_error":
                allowed = [part.strip("'") for part in context["expected"].replace(" or ", ", ").split(", ")]
                written = str(item["input"])
                yield at, f"{written!r} is no choice here", _suggestion(written, allowed, "write one of")
            case kind if kind in _EXPECTED:
                yield at, *_EXPECTED[kind]
            case _:
                yield at, item["msg"], "see docs/configuration.md"


def _line(at: Location, lines: Mapping[Location, int]) -> int:
    # A missing key has no line of its own: its parent's stands for it.
    while at not in lines and at:
        at = at[:-1]
    return lines.get(at, 1)


def _keys(at: Location, model: type[BaseModel]) -> list[str]:
    for part in at:
        if isinstance(part, str):
            field = next(field for name, field in model.model_fields.items() if (field.alias or name) == part)
            model = next(iter(models_in(field.annotation)))
    return [field.alias or name for name, field in model.model_fields.items()]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field's annotation names, within tuples and optionals too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def _suggestion(word: str, known: list[str], otherwise: str) -> str:
    near = _near(word, known)
    return f"did you mean {near}?" if near else f"{otherwise}: {', '.join(known)}"


def _near(word: str, known: list[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word.lower(), known, n=1)), None)
