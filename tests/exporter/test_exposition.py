from __future__ import annotations

import gzip

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.catalog import BY_KEY
from exporter.devices import Device, Reading
from exporter.exposition import END, Family, Page, Renderer, labels
from exporter.validity import Rejections, fault, is_blank

values = st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**63)
# Surrogates can't be encoded, and a reader may take \r and its kin for the end of a line.
texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], include_characters='\n"\\'))


def page(*families: Family) -> str:
    return Renderer().render(families).body(openmetrics=False, gzipped=False).decode()


@given(st.dictionaries(st.sampled_from(["tenant", "pod", "user"]), texts, min_size=1), values)
def test_any_label_and_value_reads_back_the_same(pairs: dict[str, str], value: float) -> None:
    (family,) = parse_text(page(Family("x", "gauge", "Help.", [(labels(pairs), value)])))
    (sample,) = family.samples
    assert sample.labels == pairs
    assert sample.value == float(value)


def test_surrogates_cost_no_page() -> None:
    (family,) = parse_text(page(Family("x", "gauge", "Help.", [(labels({"user": "a \ud83d\ude00 \ud83d"}), 1)])))
    assert family.samples[0].labels == {"user": "a 😀 \ufffd"}


def test_openmetrics_reads_back_the_same() -> None:
    families = [
        Family("gpuledger_energy_joules_total", "counter", 'A "quoted" help.', [('{a="b"}', 3.5)]),
        Family("gpuledger_power_watts", "gauge", "Power.", [("", 70)]),
        Family("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy.", [("", 1)]),
    ]
    body = Renderer().render(families).body(openmetrics=True, gzipped=False) + END
    parsed = {family.name: family for family in parse_openmetrics(body.decode())}
    assert parsed["gpuledger_energy_joules"].type == "counter"
    assert parsed["gpuledger_energy_joules"].documentation == 'A "quoted" help.'
    assert parsed["gpuledger_energy_joules"].samples[0].value == 3.5
    assert parsed["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"].type == "unknown"


def test_families_without_samples_are_left_out() -> None:
    assert page(Family("x", "gauge", "Help.", [])) == ""


def test_a_renderer_forgets_series_that_are_gone() -> None:
    renderer = Renderer()
    for number in range(100):
        renderer.render([Family("x", "gauge", "Help.", [(f'{{job="{number}"}}', 1.0)])])
    assert [lines.where for lines in renderer._lines.values()] == [('{job="99"}',)]


def test_values_change_under_kept_labels() -> None:
    renderer = Renderer()
    for value in (1.0, 2.0, 2**53, 2**53 + 1):
        body = renderer.render([Family("x", "gauge", "H.", [("", value)])]).body(openmetrics=False, gzipped=False)
        assert body.endswith(f"x {value}\n".encode())


# Few names, labels and values, so that passes repeat, change, lose and regain each of them; the numbers are neighbours
# that a careless comparison would take for one another.
numbers: st.SearchStrategy[float] = st.sampled_from(
    [0, 0.0, 1, 1.0, 0.1, 0.1 + 2**-56, 2**53, 2.0**53, 2**53 + 1, 1e300, 5e-324]
)
passes = st.lists(
    st.lists(
        st.builds(
            Family,
            st.sampled_from(["a", "b_total", "DCGM_FI_C"]),
            st.sampled_from(["gauge", "counter"]),
            st.sampled_from(["Help.", 'More "help".']),
            st.lists(st.tuples(st.sampled_from(["", '{x="1"}', '{x="%r"}']), numbers), max_size=3),
        ),
        max_size=4,
    ),
    min_size=2,
    max_size=6,
)


def written(page: Page, *, openmetrics: bool, gzipped: bool) -> list[tuple[str, float | str]]:
    """Lines of a page: name and number of a sample, all of a comment."""
    body = page.body(openmetrics=openmetrics, gzipped=gzipped)
    text = (gzip.decompress(body) if gzipped else body).decode()
    split = [line.rpartition(" ") for line in text.splitlines()]
    return [(" ".join(parts), "") if parts[0].startswith("#") else (parts[0], number(parts[2])) for parts in split]


def number(text: str) -> float:
    """As exact as the text: an int beyond 2**53 is no float."""
    return int(text) if text.isdigit() else float(text)


@given(passes, st.booleans(), st.booleans())
def test_kept_lines_are_never_stale(passes: list[list[Family]], openmetrics: bool, gzipped: bool) -> None:
    renderer = Renderer()
    for families in passes:
        kept = written(renderer.render(families), openmetrics=openmetrics, gzipped=gzipped)
        assert kept == written(Renderer().render(families), openmetrics=openmetrics, gzipped=gzipped)


def test_a_family_that_stood_still_is_not_written_again() -> None:
    renderer = Renderer()
    pages = [
        renderer.render([
            Family("moves", "gauge", "H.", [("", power)]),
            Family("still", "gauge", "H.", [('{gpu="0"}', 700.0), ('{gpu="1"}', 700.0)]),
        ])
        for power in (301.5, 302.5)
    ]  # fmt: skip
    (_, first), (_, limit) = pages[0].blocks
    (_, second), (_, kept) = pages[1].blocks
    assert kept is limit
    assert (first, second) == (b"moves 301.5\n", b"moves 302.5\n")


def test_gzip_members_join() -> None:
    body = Renderer().render([Family("x", "gauge", "H.", [("", 1.0)])]).body(openmetrics=False, gzipped=True)
    assert gzip.decompress(body + gzip.compress(b"tail")).endswith(b"x 1.0\ntail")


def test_blank_codes_of_dcgm_are_no_values() -> None:
    blanks: list[float] = [9223372036854775792 + code for code in range(4)]
    blanks += [140737488355328.0 + code for code in range(4)] + [2147483632 + code for code in range(4)]
    assert all(is_blank(float(value)) for value in blanks)
    assert not any(is_blank(value) for value in (0, 1e15, 2147483000, 140737488355327))


def test_why_a_value_is_rejected() -> None:
    assert fault("power_watts", float("nan")) == "not_finite"
    assert fault("power_watts", float("inf")) == "not_finite"
    assert fault("power_watts", 3001) == "above_range"
    assert fault("power_watts", -1) == "below_range"
    assert fault("power_watts", 700) is None


def test_a_powered_card_has_no_temperature_of_zero() -> None:
    device = Device("GPU-1", 0, 0, "", "T4")
    zeros = {"memory_temperature_celsius": 0.0, "temperature_margin_celsius": 0.0}
    powered, unplugged = Reading(device, {"power_watts": 14.5, **zeros}), Reading(device, dict(zeros))
    rejections = Rejections()
    rejections.clean(powered)
    rejections.clean(unplugged)
    assert powered.values == {"power_watts": 14.5, "temperature_margin_celsius": 0.0}
    assert unplugged.values == zeros
    assert rejections.counts == {("memory_temperature_celsius", "zero_celsius"): 1}


def test_rejected_values_are_dropped_counted_and_not_clamped() -> None:
    device = Device("GPU-1", 0, 0, "", "T4")
    reading = Reading(device, {"gpu_util_ratio": 26.19, "engine_active_ratio": 1.01, "power_watts": 70.0})
    reading.instance_values["3"] = {"engine_active_ratio": 1.03}
    rejections = Rejections()
    rejections.clean(reading)
    assert reading.values == {"engine_active_ratio": 1.0, "power_watts": 70.0}
    assert reading.instance_values == {"3": {}}
    assert rejections.counts == {("gpu_util_ratio", "above_range"): 1, ("engine_active_ratio", "above_range"): 1}
    assert BY_KEY["gpu_util_ratio"].maximum == 1
