"""Quotas of namespaces and of Kueue's queues, gathered from several series or objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple


class Quota(NamedTuple):
    """What a number is of: ``kind`` is namespace or kueue, ``within`` a queue's cohort."""

    kind: str
    name: str
    within: str | None
    resource: str


@dataclass
class Quotas:
    """Limits and what is used of them, by quota and part: the ResourceQuota of a namespace, the flavor of a queue."""

    limits: dict[Quota, dict[str, tuple[float, int | None]]] = field(default_factory=dict)
    used: dict[Quota, dict[str, tuple[float, int | None]]] = field(default_factory=dict)

    def add(self, quota: Quota, part: str, value: float, *, used: bool, at: int | None = None) -> None:
        """Take in one number; the same part told twice counts once.

        Args:
            at: when it was last told, in ms; None: it is an answer about now.
        """
        (self.used if used else self.limits).setdefault(quota, {})[part] = value, at

    def rows(self, cluster: str, observed: datetime | None, *, since: int | None = None) -> Iterator[dict[str, object]]:
        """Yield rows of ``facts.LIMIT``: of several ResourceQuotas the tightest holds, a queue's flavors add up.

        Args:
            since: what was last told before it, in ms, is no more.
        """

        def now(parts: Mapping[str, tuple[float, int | None]]) -> list[float]:
            return [value for value, at in parts.values() if at is None or since is None or at >= since]

        for quota in sorted(self.limits, key=str):
            limits, used = now(self.limits[quota]), now(self.used.get(quota, {}))
            if not limits:
                continue
            of_namespace = quota.kind == "namespace"
            yield {
                "cluster": cluster,
                "kind": quota.kind,
                "name": quota.name,
                "within": quota.within,
                "model": None if quota.resource == "nvidia_com_gpu" else quota.resource.removeprefix("nvidia_com_"),
                "gpus": min(limits) if of_namespace else sum(limits),
                "used": (max(used) if of_namespace else sum(used)) if used else None,
                "observed": observed,
            }
