"""Lints rule files: ours, and what users add beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from exporter.errors import UsageError
from pipelines.promql.lint import Fault, lint, result_labels, undefined_labels


def check(paths: Sequence[Path]) -> list[Fault]:
    """What is wrong in rule files, or in the ``*.rules.yml`` of folders.

    Raises:
        UsageError: there is nothing to check, or a file is no rule file.
    """
    files = [file for path in paths for file in (sorted(path.rglob("*.rules.yml")) if path.is_dir() else [path])]
    if not files:
        raise UsageError(f"{', '.join(map(str, paths))}: no *.rules.yml there; name the files, or build some first")
    rules = [(f"{file}: {name}", rule) for file in files for name, rule in _rules(file)]
    own = {rule["record"] for _, rule in rules if "record" in rule}
    return [fault for where, rule in rules for fault in _faults(where, rule, own)]


def _rules(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        for group in content["groups"]:
            for rule in group["rules"]:
                yield rule.get("alert") or rule["record"], rule
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{file}: no rule file ({reason}); expected groups of rules") from error


def _faults(where: str, rule: dict[str, Any], recorded: set[str]) -> Iterator[Fault]:
    faults = lint(str(rule.get("expr", "")), where, also=recorded)
    yield from faults
    if "alert" not in rule or faults:
        return
    labels, notes = rule.get("labels") or {}, rule.get("annotations") or {}
    for name in ("severity", "audience"):
        if name not in labels:
            yield Fault(where, f"has no label {name}: Alertmanager routes by it")
    for name in ("summary", "description", "runbook_url"):
        if name not in notes:
            yield Fault(where, f"has no annotation {name}: whoever is woken by it needs it")
    known = result_labels(str(rule["expr"]))
    for label in undefined_labels(" ".join(map(str, notes.values())), known and known | frozenset(labels)):
        yield Fault(where, f"uses $labels.{label}, which its expression doesn't have")
