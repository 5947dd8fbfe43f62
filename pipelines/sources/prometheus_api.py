"""Prometheus's query API, for sources that read other metrics than those of GPUs from it."""

from __future__ import annotations

from pipelines.sources.prometheus.connection import AnswerTooLargeError
from pipelines.sources.prometheus.query_api import PrometheusApi

__all__ = ["AnswerTooLargeError", "PrometheusApi"]
