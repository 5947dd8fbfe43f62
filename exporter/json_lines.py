"""Log lines as an ELK stack takes them: one JSON object a line, by the names of the Elastic Common Schema."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

ECS_VERSION: Final = "8.11.0"
_LEVELS: Final = {"WARNING": "warn", "CRITICAL": "fatal"}


def log_line(
    message: str,
    *,
    level: str = "info",
    logger: str = "gpuledger",
    at: datetime | None = None,
    error: BaseException | None = None,
    fields: Mapping[str, object] | None = None,
) -> str:
    """A line about something.

    Args:
        level: debug, info, warn, error or fatal.
        logger: which part of the program says it.
        at: when; None: now.
        error: what went wrong, where it is no error that the message tells whole.
        fields: what else is known, below the key ``gpuledger``.
    """
    stamp = (at or datetime.now(UTC)).astimezone(UTC)
    line: dict[str, object] = {
        "@timestamp": f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03}Z",
        "log.level": level,
        "message": message,
        "ecs.version": ECS_VERSION,
        "service.name": "gpuledger",
        "log.logger": logger,
    }
    if error is not None:
        trace = logging.Formatter().formatException((type(error), error, error.__traceback__))
        line |= {"error.type": type(error).__name__, "error.message": str(error), "error.stack_trace": trace}
    if fields:
        line["gpuledger"] = dict(fields)
    # What no encoding holds (half of a surrogate pair in a file's name) is escaped with the rest.
    return json.dumps(line, default=str)


class JsonFormatter(logging.Formatter):
    """Formats a record of `logging` as such a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return log_line(
            record.getMessage(),
            level=_LEVELS.get(record.levelname, record.levelname.lower()),
            logger=record.name,
            at=datetime.fromtimestamp(record.created, UTC),
            error=record.exc_info[1] if record.exc_info else None,
        )


def log_as_json() -> None:
    """Let everything that is logged from now on be such lines."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())
