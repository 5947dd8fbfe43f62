"""Globs over labels: which workload a tenant, a spot rule or a rate speaks of."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pipelines.config import Selector, Tenant

SELECTOR_KEYS: Final = (
    "cluster",
    "node",
    "namespace",
    "pod",
    "slurm_account",
    "slurm_partition",
    "slurm_qos",
    "slurm_user",
)
"""The labels that a selector may name, and that Prometheus knows too."""
LIST_KEYS: Final = ("slurm_account_tree", "namespace_label")
"""Labels with several values, a line each, known to schedulers alone: a selector matches if one of them does."""


def glob_matches(pattern: str, text: str) -> bool:
    """Whether a glob (``*``, ``?``, ``[seq]``, ``[!seq]``) matches the whole text, ignoring case."""
    return _compiled(pattern).match(text) is not None


def matches(selector: Selector, labels: Mapping[str, str | None], at: datetime | None = None) -> bool:
    """Whether every key of the selector matches its label.

    An absent label (missing or None) matches nothing, not even ``*``.

    Args:
        at: when; a dated selector matches only in [from, to). None leaves dates aside.
    """
    if at is not None and not (
        (selector.from_ is None or selector.from_ <= at) and (selector.to is None or at < selector.to)
    ):
        return False
    for key, pattern in selector.globs:
        label = labels.get(key)
        values = [] if label is None else label.split("\n") if key in LIST_KEYS else [label]
        if not any(glob_matches(pattern, value) for value in values):
            return False
    return True


def first_tenant(
    tenants: Iterable[Tenant], labels: Mapping[str, str | None], at: datetime | None = None
) -> Tenant | None:
    """The first tenant in file order with a selector that matches; None: unattributed."""
    for tenant in tenants:
        if any(matches(selector, labels, at) for selector in tenant.match):
            return tenant
    return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern), re.IGNORECASE)
