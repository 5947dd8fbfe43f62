"""Label sets of a source, each numbered once: the label columns of its sample table."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from pipelines.sources.identity import GPU_INFO, Identity, identify, mig_profile, split_uuid
from pipelines.tables import SAMPLE_LABELS


class Identities:
    """Numbers from 0 on, in the order in which label sets are first seen.

    Args:
        cluster: the source's.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._numbers: dict[Identity, int] = {}
        self._models: dict[str, tuple[str | None, str | None]] = {}  # device → model, index
        self._profiles: dict[tuple[str, str], str] = {}  # device, instance → profile

    def number(self, labels: Mapping[str, str]) -> int | None:
        """The number of a label set; None where it names no device."""
        identity = identify(labels, self._cluster)
        return None if identity is None else self._numbers.setdefault(identity, len(self._numbers))

    def describe(self, name: str, labels: Mapping[str, str]) -> None:
        """Take in a series of ``INFO_SERIES``, which says what others leave out."""
        device, _ = split_uuid(labels.get("uuid"))
        if device is None:
            return
        if name == GPU_INFO:
            self._models[device] = (labels.get("name") or None, labels.get("index") or None)
        elif labels.get("gpu_instance_id") and labels.get("profile"):
            self._profiles[device, labels["gpu_instance_id"]] = mig_profile(labels["profile"])

    def table(self) -> pl.DataFrame:
        """The columns of ``SAMPLE_LABELS`` but the time; one row per number."""
        schema = {name: kind for name, kind in SAMPLE_LABELS.items() if name != "time"}
        return pl.DataFrame([self._described(identity) for identity in self._numbers], schema=schema, orient="row")

    def in_order(self) -> list[int]:
        """All numbers, sorted by their labels, device first: the same whatever order they were seen in."""
        of = list(self._numbers)
        return sorted(range(len(of)), key=lambda n: (of[n].device, *(label or "" for label in of[n])))

    def _described(self, identity: Identity) -> Identity:
        model, index = self._models.get(identity.device, (None, None))
        profile = self._profiles.get((identity.device, identity.instance or ""))
        return identity._replace(
            model=identity.model or model,
            gpu_index=identity.gpu_index or index,
            profile=identity.profile or profile,
        )
