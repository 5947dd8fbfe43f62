"""Prices by model and time, and where they change."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

from pipelines.config import Config, Rate, Reservation, about_rate, reservation_rate, speaks_for
from pipelines.config.recorded import in_force
from pipelines.instants import from_ms, to_ms
from pipelines.selectors import glob_matches


class RateCard:
    """The configuration's rates; the first entry that matches model and time wins, as it was last recorded."""

    def __init__(self, config: Config) -> None:
        self._config = config
        dated = {t for rate in config.rates for t in (rate.from_, rate.to) if t is not None}
        self.edges = sorted(to_ms(t) for t in dated)
        self._cache: dict[tuple[str | None, int], int | None] = {}
        self._in_force = in_force(config.rates, about_rate)

    def entry(self, model: str | None, t: int) -> Rate | None:
        """Return the entry for a model at a time in ms; None: there is no price."""
        position = self.position(model, t)
        return None if position is None else self._config.rates[position]

    def position(self, model: str | None, t: int) -> int | None:
        """Return where that entry stands in `rates`."""
        key = (model, bisect_right(self.edges, t))
        if key not in self._cache:
            at, rates = from_ms(t), self._config.rates
            self._cache[key] = next(
                (
                    s.place
                    for s in self._in_force
                    if s.start <= at < s.end and glob_matches(rates[s.place].model, model or "")
                ),
                None,
            )
        return self._cache[key]

    def stretch(self, t: int) -> int:
        """Return which stretch between edges a time is in; within one, prices are the same."""
        return bisect_right(self.edges, t)

    def price(self, model: str | None, class_: str, t: int) -> Fraction | None:
        """Return the price per GPU-hour of a class."""
        entry = self.entry(model, t)
        return None if entry is None else Fraction(entry.price(class_))

    def reserved(self, reservation: Reservation, t: int) -> Fraction:
        """Return what a reserved GPU-hour costs, used or not."""
        return Fraction(reservation_rate(self._config, reservation, from_ms(t)))

    def on_demand_of(self, reservation: Reservation, t: int) -> Fraction | None:
        """Return the on-demand price of the models that a reservation is for."""
        at = from_ms(t)
        found = next((r for r in self._config.rates_in_force if r.holds(at) and speaks_for(r, reservation)), None)
        return None if found is None else Fraction(found.on_demand)
