"""Types of single values of the configuration, and what is said when one is wrong."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BeforeValidator, PlainSerializer, StringConstraints, ValidationInfo
from pydantic_core import PydanticCustomError

from exporter.errors import ConfigError, UsageError
from pipelines import money, periods
from pipelines.config.reading import Number

_DECIMAL: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_TENANT_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
UNATTRIBUTED: Final = "unattributed"
"""Who pays where no tenant does; no tenant's id."""
_WHOLE_DIGITS: Final = 15
_FRACTION_DIGITS: Final = 18  # what the published tables hold
_SPARK_URL: Final = re.compile(r"sc://(?:[^\s/:;\[\]]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?(?:/(?:;\S*)?)?", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,9}", re.ASCII)
UTC_ZONE: Final = ZoneInfo("UTC")


def fault(what: str, mend: str, key: str = "") -> PydanticCustomError:
    """A validation error in this project's terms.

    Args:
        what: what is wrong and what was expected.
        mend: what to write instead.
        key: the key at fault below the validated value, where the value itself isn't.
    """
    return PydanticCustomError("fault", "{what}", {"what": what, "mend": mend, "key": key})


def _tenant_id(value: Any) -> str:
    if not isinstance(value, str) or _TENANT_ID.fullmatch(value) is None:
        raise fault(f"{_shown(value)} is no tenant id", "use 1 to 63 of a-z, 0-9 and -, the first of them no hyphen")
    if value == UNATTRIBUTED:
        raise fault(f"{value} is what no tenant's selector matches", "give the tenant another id")
    return str(value)


def _amount(value: Any) -> Decimal:
    if isinstance(value, Decimal):
        text = format(value, "f")
    elif isinstance(value, Number):
        raise fault(f"{value} is not quoted, and an unquoted number may be rounded", f'write "{value}"')
    else:
        text = value if isinstance(value, str) else ""
    if text.startswith("-"):
        raise fault(f"{_shown(value)} is negative", 'write an amount of "0" or more')
    if _DECIMAL.fullmatch(text) is None:
        raise fault(f"{_shown(value)} is no amount", 'write a quoted decimal such as "2.50"')
    whole, _, fraction = text.partition(".")
    if len(whole.lstrip("0")) > _WHOLE_DIGITS or len(fraction) > _FRACTION_DIGITS:
        mend = f"write at most {_WHOLE_DIGITS} before the point and {_FRACTION_DIGITS} after it"
        raise fault(f"an amount of {len(text)} digits", mend)
    return Decimal(text)


def _count(value: Any) -> int:
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        number = int(value)
    if number is None or number < 0:
        raise fault(f"{_shown(value)} is no count", "write a whole number such as 8")
    return number


def _positive_count(value: Any) -> int:
    number = _count(value)
    if not number:
        raise fault("0 GPUs reserve nothing", "write a whole number of 1 or more")
    return number


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise fault(f"{_shown(value)} is no duration", "write it as 30s, 5m, 1h30m or 1d")
    try:
        return periods.parse_duration(value)
    except UsageError as error:
        raise _from_usage(error) from None


def _instant(value: Any, info: ValidationInfo) -> datetime:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if not isinstance(value, str):
        raise fault(f"{_shown(value)} is no time", "write it as 2026-11-03 or 2026-11-03T09:30:00Z")
    zone = info.context["zone"] if info.context else UTC_ZONE
    try:
        return periods.parse_time(value, zone)
    except UsageError as error:
        raise _from_usage(error) from None


def _day(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if not isinstance(value, str) or len(value) != len("2026-11-03"):
            raise ValueError  # noqa: TRY301  (one message for both)
        return date.fromisoformat(value)
    except ValueError:
        raise fault(f"{_shown(value)} is no day", "write it as 2026-11-03") from None


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones; finding them walks the whole zone database, so it is done once."""
    return frozenset(available_timezones())


def _zone(value: Any) -> ZoneInfo:
    if isinstance(value, ZoneInfo):
        return value
    known = zone_names()
    if isinstance(value, str) and value in known:
        return ZoneInfo(value)
    near = difflib.get_close_matches(str(value), known, n=1)
    mend = f"did you mean {near[0]}?" if near else "write an IANA name such as America/New_York or UTC"
    raise fault(f"{_shown(value)} is no time zone", mend)


def _currency(value: Any) -> str:
    if not isinstance(value, str):
        raise fault(f"{_shown(value)} is no ISO 4217 currency code", "write a code such as USD, EUR or JPY")
    try:
        money.minor_unit(value)
    except ConfigError as error:
        raise fault(error.what, error.mend) from None
    return str(value)


def _spark_url(value: Any) -> str:
    if not isinstance(value, str) or _SPARK_URL.fullmatch(value) is None:
        raise fault(f"{_shown(value)} is no address of Spark Connect", "write it as sc://spark.example.org:15002")
    return str(value)


def _names(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "an empty value" if value is None or value == "" else repr(str(value))


def _from_usage(error: UsageError) -> PydanticCustomError:
    what, _, mend = str(error).partition("; ")
    return fault(what, mend)


def _plain(value: Decimal) -> str:
    # "2.5" and "2.50" are one price.
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class Written:
    """How a value is written in the file: what the reference shows as its type."""

    text: str


Text = Annotated[str, StringConstraints(min_length=1), Written("text")]
Glob = Annotated[str, StringConstraints(min_length=1), Written("glob")]
TenantId = Annotated[str, BeforeValidator(_tenant_id), Written("id")]
Currency = Annotated[str, BeforeValidator(_currency), Written("ISO 4217 code")]
Amount = Annotated[
    Decimal, BeforeValidator(_amount), PlainSerializer(_plain, return_type=str), Written("quoted decimal")
]
"""A quoted decimal of zero or more: money, a rate, a factor."""
Count = Annotated[int, BeforeValidator(_count), Written("whole number")]
PositiveCount = Annotated[int, BeforeValidator(_positive_count), Written("whole number, 1 or more")]
Duration = Annotated[timedelta, BeforeValidator(_duration), Written("duration")]
Instant = Annotated[datetime, BeforeValidator(_instant), Written("time")]
"""An aware datetime in UTC; without an offset it was local to the file's `timezone`."""
Day = Annotated[date, BeforeValidator(_day), Written("day")]
Zone = Annotated[
    ZoneInfo, BeforeValidator(_zone), PlainSerializer(lambda zone: zone.key, return_type=str), Written("IANA time zone")
]
SparkUrl = Annotated[str, BeforeValidator(_spark_url), Written("sc:// URL")]
Names = Annotated[tuple[Text, ...], BeforeValidator(_names), Written("list of text, or one comma-separated text")]
"""A list of text, or one comma-separated text."""
