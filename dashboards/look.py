"""Units, colours and thresholds: one look for all boards."""

from __future__ import annotations

from typing import Final

from exporter.catalog import BY_KEY

GREEN, AMBER, RED, BLUE, GREY = "green", "orange", "red", "blue", "text"

_UNIT_OF: Final = {
    "ratio": "percentunit",
    "bytes": "bytes",
    "bytes_per_second": "Bps",
    "watts": "watt",
    "joules": "joule",
    "celsius": "celsius",
    "hertz": "hertz",
    "seconds": "s",
    "": "short",
}
RATIO, GPUS, WATTS, CELSIUS, SECONDS, COUNT = "percentunit", "suffix: GPUs", "watt", "celsius", "s", "short"
TIME: Final = "dateTimeFromNow"
_CURRENCY_UNITS: Final = {
    "USD": "currencyUSD",
    "EUR": "currencyEUR",
    "GBP": "currencyGBP",
    "JPY": "currencyJPY",
    "CHF": "currencyCHF",
    "INR": "currencyINR",
    "SEK": "currencySEK",
    "NOK": "currencyNOK",
    "DKK": "currencyDKK",
    "CZK": "currencyCZK",
    "PLN": "currencyPLN",
    "BRL": "currencyBRL",
    "KRW": "currencyKRW",
    "ZAR": "currencyZAR",
}

Steps = tuple[tuple[str, float | None], ...]
"""Thresholds: (colour, lower bound), the base first with None."""

PLAIN: Final[Steps] = ((BLUE, None),)
HIGH_IS_GOOD: Final[Steps] = ((RED, None), (AMBER, 0.3), (GREEN, 0.6))
HIGH_IS_FULL: Final[Steps] = ((GREEN, None), (AMBER, 0.8), (RED, 0.95))
ANY_IS_BAD: Final[Steps] = ((GREEN, None), (RED, 1))
ANY_IS_ODD: Final[Steps] = ((GREEN, None), (AMBER, 1))
NEARLY_ALL: Final[Steps] = ((RED, None), (AMBER, 0.9), (GREEN, 0.95))
HOT: Final[Steps] = ((GREEN, None), (AMBER, 80), (RED, 90))
UP_OR_DOWN: Final[Steps] = ((RED, None), (GREEN, 1))


def unit_of(key: str) -> str:
    """Grafana's unit of a catalogue metric."""
    return _UNIT_OF[BY_KEY[key].unit]


def money_unit(currency: str) -> str:
    """Grafana's unit of an ISO 4217 currency; one that it doesn't know stands before the amount."""
    return _CURRENCY_UNITS.get(currency, f"prefix:{currency} ")


def decimals_of(unit: str) -> int | None:
    """Decimals of an amount of money; None: whatever Grafana finds right."""
    if not unit.startswith(("currency", "prefix:")):
        return None
    return 0 if unit in ("currencyJPY", "currencyKRW") else 2


def money_per_hour(currency: str) -> str:
    """Money an hour, for axes and stats."""
    return f"suffix: {currency}/h"
