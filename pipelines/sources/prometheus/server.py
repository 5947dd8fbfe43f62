"""What a server can do: the fastest way of reading that it has, found by asking it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from exporter.errors import SourceError
from pipelines.sources.prometheus.answer import Answer, Question
from pipelines.sources.prometheus.connection import NotSpokenError, UnknownEncodingError
from pipelines.sources.prometheus.export import Export
from pipelines.sources.prometheus.query_api import PrometheusApi
from pipelines.sources.prometheus.remote_read import RemoteRead

_LOG = logging.getLogger(__name__)


class Reader(Protocol):
    """A way of reading stored samples."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def read(self, question: Question, *, probing: bool = False) -> Answer:
        """The samples asked for, all of them.

        Args:
            probing: see `Connection.ask`.

        Raises:
            NotSpokenError: the server doesn't have this way, or not for these samples.
            AnswerTooLargeError: ask for less.
            SourceError: no whole answer was to be had.
        """


Ways = Callable[[PrometheusApi, Question], list[Reader]]
"""Finds the ways, besides the query API, in which a server answers a question; the fastest first."""


def faster_ways(api: PrometheusApi, probe: Question) -> list[Reader]:
    """The ways, besides the query API, in which the server answers a question; the fastest first."""
    chunks, samples = RemoteRead(api.connection), RemoteRead(api.connection, streamed=False)
    export = Export(api.connection)
    ways: list[tuple[Reader, list[Reader]]] = [(chunks, [chunks, samples]), (export, [export])]
    for way, usable in ways:
        try:
            way.read(probe, probing=True)
        except UnknownEncodingError:
            return [samples]
        except SourceError as error:
            _LOG.debug("not read by %s: %s", way.name, error)
        else:
            return usable
    return []


class Server:
    """A server's samples, read in the fastest way that it has. Threads may share it.

    Args:
        api: of the server; every server has that way, so it comes last.
        probe: a short question about a metric that the server has, to try the other ways with.
        ways: finds them.
    """

    def __init__(self, api: PrometheusApi, probe: Question, ways: Ways = faster_ways) -> None:
        self._lock = threading.Lock()
        configuration = api.configuration()
        labels = (configuration.get("global") or {}).get("external_labels") or {}
        api.external_labels = {str(name): str(value) for name, value in labels.items()}
        # Failures of the servers that it reads from itself are told by its query API alone.
        reads_others = bool(configuration.get("remote_read"))
        self._readers = [*([] if reads_others else ways(api, probe)), api]
        _LOG.info("%s: read by %s", api.url, self.name)

    @property
    def name(self) -> str:
        """How it is read."""
        return self._readers[0].name

    def read(self, question: Question) -> Answer:
        """The samples asked for, all of them.

        Raises:
            AnswerTooLargeError: ask for less.
            SourceError: no whole answer was to be had.
        """
        while True:
            reader = self._readers[0]
            try:
                return reader.read(question)
            except NotSpokenError as error:
                self._leave(reader, error)

    def _leave(self, reader: Reader, error: NotSpokenError) -> None:
        with self._lock:
            if reader is self._readers[-1]:
                raise error
            if reader is self._readers[0]:
                self._readers.pop(0)
                _LOG.warning("%s: from here on read by %s", error, self.name)
