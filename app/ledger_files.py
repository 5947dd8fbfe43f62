"""The one way to what is published: follow the pointer, open the file that it names read-only, ask it.

A published file never changes under its name, so a connection and its answers are good for as long as the name is;
a reader that was opened goes on reading what it opened while newer files are published.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import polars as pl
from polars import selectors as cs

from exporter.errors import LedgerError
from pipelines import store
from pipelines.publish import FOLDER, KEPT, Publication, current

ANSWERS_KEPT: Final = 512
EXACT: Final = 9
"""Decimals of what is summed: 4351.75 hours summed as floats are 4351.7499…, which would be shown as another tenth."""
Parameter = str | int | float | None
_T = TypeVar("_T")


class Reader:
    """One published file, open read-only.

    Attributes:
        name: the file's.
        content: names what is in it: a ledger that is made anew begins with the same names of files.
    """

    def __init__(self, path: Path) -> None:
        self.name, self.content = path.name, content_of(path)
        self._closing = ExitStack()
        self._connection = self._closing.enter_context(store.opened(path, read_only=True))
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, query: str, parameters: Mapping[str, Parameter] | None = None) -> pl.DataFrame:
        """Return the answer to a query with its parameters bound by name (``$tenant``); don't write into it."""
        bound = dict(parameters or {})
        return self.once((query, *sorted(bound.items())), lambda: self._asked(query, bound))

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what is made of this file's answers, made when first asked for; don't write into it.

        Args:
            key: all that it depends on beside the file, since everybody who reads the file is given the same.
        """
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                kept: _T = self._answers[key]
                return kept
        made = make()
        with self._lock:
            self._answers[key] = made
            while len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return made

    def close(self) -> None:
        """Close the file."""
        self._closing.close()

    def _asked(self, query: str, bound: dict[str, Parameter]) -> pl.DataFrame:
        # A cursor per query: cursors of one connection may be used by different threads.
        with self._connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'").fetchall()
            try:
                answer: pl.DataFrame = cursor.sql(query, params=bound).pl().with_columns(cs.float().round(EXACT))
            except (duckdb.CatalogException, duckdb.BinderException):
                raise LedgerError(
                    f"{self.name} was published by another release; run `gpuledger run --once` to publish again"
                ) from None
        return answer


def content_of(path: Path) -> str:
    """Return a name of what a published file holds; "" where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{path.name} {found.st_ino} {found.st_mtime_ns}"


class LedgerFiles:
    """The published files of one ledger; a file is opened when first asked for, and once."""

    def __init__(self, ledger: Path) -> None:
        self._folder = ledger / FOLDER
        self._ledger = ledger
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._outdated: list[str] = []
        self._publication: Publication | None = None
        self._lock = threading.Lock()

    def publication(self) -> Publication:
        """Return what is published now.

        Raises:
            LedgerError: nothing is.
        """
        found = current(self._ledger)
        if found is None:
            raise LedgerError("nothing is published yet; run `gpuledger run --once`, then load this page again")
        return found

    def fleet(self) -> Reader:
        """Return the operator's file: every tenant's rows."""
        return self._reader(self.publication(), None)

    def tenant(self, tenant: str) -> Reader | None:
        """Return a tenant's own file; None: it has no rows."""
        published = self.publication()
        return self._reader(published, tenant) if tenant in published.tenants else None

    @property
    def open_files(self) -> list[str]:
        """Names of the files that are open."""
        with self._lock:
            return list(self._readers)

    def _reader(self, publication: Publication, tenant: str | None) -> Reader:
        name = publication.fleet if tenant is None else publication.tenants[tenant]
        with self._lock:
            self._retire(publication)
            if name in self._readers and self._readers[name].content != content_of(self._folder / name):
                self._readers.pop(name).close()  # DuckDB would go on with the file that had this name before
            if name not in self._readers:
                self._readers[name] = Reader(self._folder / name)
            return self._readers[name]

    def _retire(self, publication: Publication) -> None:
        """Close files that no recent pointer named; a page that is being drawn may still read the last ones."""
        if publication == self._publication:
            return
        self._publication = publication
        named = {publication.fleet, *publication.tenants.values()}
        for name in self._outdated:
            if name not in named and name in self._readers:
                self._readers.pop(name).close()
        self._outdated = [name for name in self._readers if name not in named][-KEPT * len(named) :]
