"""Values of reports: hours, ratios, money and instants as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, PlainSerializer, WithJsonSchema


def instant(t: datetime) -> str:
    """Return a UTC time as ISO 8601 with Z, with milliseconds where it has any."""
    text = t.isoformat(timespec="milliseconds") if t.microsecond else t.isoformat()
    return text.replace("+00:00", "Z")


Hours = Annotated[float, Field(description="GPU-hours, to 6 decimals")]
Ratio = Annotated[float, Field(ge=0, description="a ratio, to 6 decimals")]
Money = Annotated[str, Field(pattern=r"^-?\d+(\.\d+)?$", description="in the currency's minor unit")]
Instant = Annotated[
    datetime,
    PlainSerializer(instant, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": "Z$"}, mode="serialization"),
]
