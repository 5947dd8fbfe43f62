"""What if: other cards, further reservations, and the reservation that would have been cheapest."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pytest

from exporter.errors import UsageError
from pipelines.book.cheapest import cheapest
from pipelines.book.whatif import whatif
from pipelines.config import Config
from tests.pipelines.book.conftest import CONFIG, Book

PLAIN = CONFIG.replace("proportional", "platform").replace('"100.00"', '"0.00"')


def of(config: Config, tenant: str, *, fleet: tuple[str, ...] = (), reserve: tuple[str, ...] = ()) -> tuple[str, str]:
    found = whatif(config, config, "2026-11", fleet=fleet, reserve=reserve)
    row = next(t for t in found.tenants if t.tenant == tenant)
    return row.now, row.then


def test_twice_as_fast_takes_half_the_hours_at_the_other_cards_price(book: Book) -> None:
    dearer = PLAIN.replace("rates:\n", 'rates:\n  - {model: "*B200*", on_demand: "6.00"}\n')
    config = book(config=dearer)
    assert of(config, "bio", fleet=("*H100*=NVIDIA B200:2",)) == ("20.00", "24.00")  # 8 h × 2.50, 4 h × 6.00
    assert of(config, "bio", fleet=("*H100*=NVIDIA B200:2.5",)) == ("20.00", "19.20")


def test_a_further_reservation_is_paid_for_used_or_not(book: Book) -> None:
    config = book(config=PLAIN)
    # 2 GPUs × 720 h × 1.50 for the 4 h in which both were held
    assert of(config, "bio", reserve=("bio:*H100*:2",)) == ("20.00", "2160.00")
    assert of(config, "bio", reserve=("bio:*H100*:2:0.01",)) == ("20.00", "14.40")


@pytest.mark.parametrize(
    ("fleet", "reserve", "why"),
    [
        (("H100",), (), "write GLOB=MODEL:SPEED"),
        (("*H100*=B200:0",), (), "write GLOB=MODEL:SPEED"),
        (("*A30*=B200",), (), "no model matches; there are H100"),
        ((), ("bio:*H100*",), "write TENANT:MODEL:GPUS"),
        ((), ("zoo:*H100*:1",), "no tenant zoo"),
        ((), ("bio:*L4*:1",), "give it a rate"),
    ],
)
def test_what_cannot_be_supposed_is_said(
    book: Book, fleet: tuple[str, ...], reserve: tuple[str, ...], why: str
) -> None:
    with pytest.raises(UsageError, match=why.replace("*", r"\*")):
        of(book(config=PLAIN), "bio", fleet=fleet, reserve=reserve)


STEADY = "".join(f"2026-11-{day:02d}T00:00:00Z,2026-11-{day:02d}T{hours}:00:00Z,1,,H100,bio,s{day}-{hours},\n"
                 for day in range(1, 31) for hours in (10, 20))  # fmt: skip


def test_the_cheapest_reservation_is_the_one_that_no_other_size_undercuts(book: Book) -> None:
    # Each day one GPU is held for 20 h and a second one for 10 h, at 2.50; reserved ones cost 1.50 for 24 h.
    config = book(STEADY, config=PLAIN)
    advice = next(a for a in cheapest(config, "bio", "2026-11").models if a.model == "H100")
    sizes = {size.gpus: Decimal(size.cost) for size in advice.sizes}
    # 30 × 30 h × 2.50 + 8 h × 2.50 on the 2nd; with one: 720 h × 1.50, and what is left of it on demand
    assert sizes[0] == Decimal("2270.00")
    assert advice.gpus == 1
    assert sizes[1] < sizes[0]
    assert sizes[1] < sizes[2]
    assert Decimal(advice.saved) == sizes[0] - sizes[1]
    then = of(config, "bio", reserve=("bio:H100:1:1.50",))[1]
    assert Decimal(then) == sizes[1]


FOUR: Final = "2026-11-02T04:00:00Z,2026-11-12T12:00:00Z,4,,H100,bio,four,\n"
"""992 GPU-hours after the 8 of two GPUs that the book has: n reserved ones take 252, 504, 752 and all 1,000."""


@pytest.mark.parametrize(
    ("prices", "sizes"),
    [
        # From 400 h on all hours cost 4.00. A reserved GPU costs 720 × 1.50.
        (
            'reserved: "1.50", tiers: [{above: "400", price: "4.00"}], tiering: all_units',
            ["4000.00", "4072.00", "4144.00", "3488.00", "4320.00"],
        ),
        # The first 400 h cost 1.00, the others 0.10: all four must go before the dear hours do.
        (
            'reserved: "0.15", tiers: [{above: "400", price: "0.10"}], tiering: graduated',
            ["460.00", "542.80", "625.60", "572.00", "432.00"],
        ),
        # Who reserves pays 0.10 for what goes beyond.
        ('reserved: "0.30", overflow: "0.10"', ["1000.00", "290.80", "481.60", "672.80", "864.00"]),
    ],
)
def test_where_prices_depend_on_volume_every_size_is_rated(book: Book, prices: str, sizes: list[str]) -> None:
    rate = f'rates:\n  - {{model: "H100", on_demand: "1.00", {prices}}}\n'
    config = book(FOUR, config=PLAIN.replace("rates:\n", rate))
    (advice,) = (a for a in cheapest(config, "bio", "2026-11").models if a.model == "H100")
    assert [size.cost for size in advice.sizes] == sizes
    assert advice.gpus == sizes.index(min(sizes, key=Decimal))
    assert Decimal(advice.saved) == Decimal(sizes[0]) - min(map(Decimal, sizes))


def test_where_nothing_is_worth_reserving_it_says_so(book: Book) -> None:
    found = cheapest(book(config=PLAIN), "bio", "2026-11")
    assert [(a.gpus, a.saved) for a in found.models] == [(0, "0.00")]
    assert "reserve no more" in str(found)


def test_what_a_reservation_covers_already_needs_none(book: Book) -> None:
    assert cheapest(book(config=PLAIN), "astro", "2026-09").models[0].gpus == 0
    with pytest.raises(UsageError, match="no such tenant"):
        cheapest(book(config=PLAIN), "zoo", "2026-11")
