"""Long work in the background: it outlives the tab that asked for it, tells how far it is, and can be cancelled.

Each task is a process of its own, so that pages stay quick while it works; the server's end ends it too. What it made
belongs to who started it, and is had through app.downloads.
"""

from __future__ import annotations

import atexit
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from app.sign_in import Viewer
from exporter.errors import UsageError

KEPT: Final = 4
"""Tasks of one person; older ones are removed with what they made."""

State = Literal["working", "done", "failed", "cancelled"]


@dataclass
class Task:
    """A piece of work.

    Attributes:
        label: for people; what: names the same work, so that it isn't done twice at once.
        path: where what it makes comes to lie.
        done, total: how far it is.
    """

    label: str
    what: str
    path: Path
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: State = "working"
    done: int = 0
    total: int = 0
    error: str = ""
    process: subprocess.Popen[str] | None = None


class Tasks:
    """The tasks of this server, by who started them."""

    def __init__(self) -> None:
        self._by_person: dict[str, dict[str, Task]] = {}
        self._lock = threading.Lock()
        self._folder: Path | None = None

    def of(self, who: Viewer) -> Mapping[str, Task]:
        """Return the tasks that a person started, by id, the newest last."""
        with self._lock:
            return dict(self._by_person.get(_name(who), {}))

    def start(self, who: Viewer, label: str, what: str, module: str, arguments: list[str], file: str) -> Task:
        """Start a module as a task; it gets the arguments and the path of the file to make.

        It prints ``done total`` as it goes on, and ends in one line on stderr where it fails. The same work that is
        under way or done already isn't started again.
        """
        with self._lock:
            mine = self._by_person.setdefault(_name(who), {})
            again = [t for t in mine.values() if t.what == what and t.state in ("working", "done")]
            if again:
                return again[-1]
            if any(t.state == "working" for t in mine.values()):
                raise UsageError("something is being made already; wait for it, or cancel it")
            task = Task(label, what, Path())
            folder = self._home() / task.id
            folder.mkdir()
            task.path = folder / file
            mine[task.id] = task
            for old in list(mine.values())[:-KEPT]:
                del mine[old.id]
                shutil.rmtree(old.path.parent, ignore_errors=True)
        command = [sys.executable, "-P", "-m", module, *arguments, str(task.path)]
        task.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
        threading.Thread(target=_follow, args=(task,), daemon=True).start()
        return task

    def cancel(self, who: Viewer, id_: str) -> None:
        """End a task; what it made so far is removed."""
        task = self.of(who).get(id_)
        if task is None or task.process is None or task.state != "working":
            return
        task.state = "cancelled"
        task.process.terminate()
        shutil.rmtree(task.path.parent, ignore_errors=True)

    def close(self) -> None:
        """End all tasks and remove what they made."""
        for mine in self._by_person.values():
            for task in mine.values():
                if task.process is not None:
                    task.process.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _home(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="gpuledger-app-"))
            atexit.register(self.close)
        return self._folder


def _follow(task: Task) -> None:
    process = task.process
    if process is None or process.stdout is None or process.stderr is None:
        return
    for line in process.stdout:
        done, _, total = line.partition(" ")
        if done.isdecimal() and total.strip().isdecimal():
            task.done, task.total = int(done), int(total)
    said = process.stderr.read().strip().splitlines()
    failed = process.wait() != 0
    if task.state == "working":
        task.error = said[-1] if failed and said else ""
        task.state = "failed" if failed or not task.path.is_file() else "done"


def _name(who: Viewer) -> str:
    return f"{who.role} {who.name}"


_tasks: Final = Tasks()
of = _tasks.of
start = _tasks.start
cancel = _tasks.cancel
close = _tasks.close
