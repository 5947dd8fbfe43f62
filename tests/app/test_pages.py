"""Every page of the app, as Streamlit runs it: what it says, and that it says the same as the ledger."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import pytest

from app.views import PAGES
from pipelines.book.closing import close
from pipelines.config import load
from pipelines.operations import report
from tests.app.conftest import HOSTILE, opened, shown

PATHS: Final = [page.path for page in PAGES]
TENANTS: Final = ["", "vision", "speech", "secret", "research"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("tenant", TENANTS)
def test_every_page_of_every_tenant_is_drawn(
    published: Path, monkeypatch: pytest.MonkeyPatch, path: str, tenant: str
) -> None:
    app = opened(monkeypatch, published, path, tenant=tenant)
    assert not app.exception
    assert len(app.title) == 1
    assert not app.error
    # A second table in a picture would be drawn beside its rows, as "undefined".
    assert not [chart for chart in app.get("vega_lite_chart") if chart.proto.datasets]


@pytest.mark.parametrize("path", PATHS)
def test_text_from_labels_is_never_markup(published: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    app = opened(monkeypatch, published, path)
    html = "".join(element.proto.body for element in app.get("html"))
    assert "<script>" not in html
    assert "<img" not in html
    markdown = [e.value for kind in (app.title, app.header, app.markdown, app.caption, app.info) for e in kind]
    for text in markdown:
        assert not [name for name in HOSTILE[:3] if name in text], text


def test_a_name_that_is_markdown_is_shown_as_it_is(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    title = opened(monkeypatch, published, tenant="vision").title[0].value
    assert r"\*\*bold\*\* \[link\]\(javascript\:window" in title


def test_an_address_opens_its_view(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "cost", tenant="secret", time="2026-10", by="model", compare="none")
    assert app.title[0].value.startswith("October 2026: Secret Project pays USD ")
    assert app.header[0].value == "By model"


def test_what_an_address_names_and_isn_t_there_is_ignored(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, tenant="nobody", month="1999-01", compare="<script>")
    assert app.title[0].value.startswith("November 2026: the fleet cost")
    assert "tenant" not in app.query_params
    assert "(tenant, time, compare)" in app.warning[0].value.replace("\\", "")
    app.run()
    assert not app.warning


def test_a_month_of_an_old_link_is_left_for_another(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, month="2026-10")
    assert app.title[0].value.startswith("October 2026")
    app.selectbox(key="when").set_value("2026-11").run()
    assert app.title[0].value.startswith("November 2026")
    assert not app.warning


def test_a_choice_stands_in_the_address(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published)
    app.selectbox(key="tenant").set_value("vision").run()
    assert app.query_params["tenant"] == "vision"
    app.selectbox(key="tenant").set_value("").run()
    assert "tenant" not in app.query_params


def test_whole_months_are_compared(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published)
    assert "Changes are against October 2026." in [c.value for c in app.caption]
    assert re.fullmatch(r"[+-]\d+\.\d%", app.metric[0].delta)


@pytest.mark.parametrize(
    ("time", "compare", "said"),
    [
        ("2026-W45", "", "Changes are against Week 44, 26 Oct to 1 Nov 2026."),
        ("2026-11-05", "2026-10-07", "Changes are against 7 Oct 2026."),
        ("2026-10-07..2026-11-06", "2026-11", "Changes are against November 2026."),
        ("2026-11", "year", "No changes are shown: the ledger holds nothing of the days to compare with."),
        ("2026-Q4", "", "No changes are shown: the ledger holds nothing of the days to compare with."),
    ],
)
def test_any_range_is_compared_with_any_other(
    published: Path, monkeypatch: pytest.MonkeyPatch, time: str, compare: str, said: str
) -> None:
    address = {"time": time} | ({"compare": compare} if compare else {})
    app = opened(monkeypatch, published, **address)
    assert said in [c.value for c in app.caption]


def test_the_kind_of_time_is_changed_where_the_range_ends(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published)
    for kind, name in (("quarter", "2026-Q4"), ("day", "2026-11-30"), ("week", "2026-W49"), ("days", None)):
        app.selectbox(key="kind").set_value(kind).run()
        assert not app.exception
        assert app.query_params["time"] == (name or "2026-11-30..2026-12-06")
    app.date_input(key="dates").set_value((date(2026, 10, 30), date(2026, 11, 2))).run()
    assert app.query_params["time"] == "2026-10-30..2026-11-02"
    assert app.title[0].value.startswith("30 Oct to 2 Nov 2026: the fleet cost")


def test_without_a_month_to_compare_with_there_is_no_change(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, compare="none")
    assert {metric.delta for metric in app.metric} == {""}


def test_what_was_never_observed_is_na_and_not_zero(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, tenant="secret")
    figures = {metric.label: metric.value for metric in app.metric}
    assert (figures["Busy while held"], figures["Waste"]) == ("n/a", "n/a")
    assert "0.0% of it observed" in shown(app)


def test_a_ledger_without_a_publication_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gpuledger.yaml"
    config.write_text("currency: USD\n")
    app = opened(monkeypatch, config)
    assert not app.exception
    assert "gpuledger run" in app.error[0].value.replace("\\", "")


def test_a_missing_or_wrong_configuration_is_named_in_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = opened(monkeypatch, tmp_path / "none.yaml")
    assert "gpuledger check" in app.error[0].value
    assert "none.yaml: no such file" in caplog.text
    wrong = tmp_path / "gpuledger.yaml"
    wrong.write_text("currency: USD\nnonsense: 1\n")
    app = opened(monkeypatch, wrong)
    assert "nonsense" not in app.error[0].value
    assert "nonsense: unknown key" in caplog.text


def test_a_workload_opens_down_to_its_leases(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "cost", tenant="secret", workload="secret-job")
    assert app.title[0].value == r"November 2026: secret\-job cost USD 2,307\.20"
    assert str(app.dataframe[0].value["amount"].sum()).startswith("2307.2")


def test_a_statement_is_the_report_s_to_the_cent(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "statements", tenant="secret")
    total = report(load(published), period="2026-11", tenant="secret").tenants[0].charges.total
    assert app.title[0].value.endswith(f"Secret Project, USD {float(total):,.2f}".replace(".", r"\."))
    for format_ in ("pdf", "xlsx", "csv", "json"):
        assert f'href="downloads/statements/2026-11/secret.{format_}"' in shown(app)


def test_a_closed_month_hands_out_what_was_closed(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ledger"
    shutil.copytree(published.parent, folder)
    config = load(folder / published.name)
    close(config, "2026-10", now=datetime(2026, 12, 15, tzinfo=UTC), by="test")
    app = opened(monkeypatch, config.path, "statements", tenant="secret", month="2026-10")
    assert "Closed as **" in app.markdown[0].value
    assert "The month is closed" in opened(monkeypatch, config.path, "statements", month="2026-10").markdown[0].value


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("cost", "5 to 8 Oct 2026: Secret Project pays"),
        ("waste", "5 to 8 Oct 2026: USD"),
        ("capacity", "5 Oct to 8 Oct 2026"),
        ("tenant", "5 to 8 Oct 2026: Secret Project pays"),
    ],
)
def test_a_link_from_grafana_opens_the_same_scope(
    published: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    since, until = (int(datetime(2026, 10, day, 12, tzinfo=UTC).timestamp() * 1000) for day in (5, 8))
    for link in (
        {"var-tenant": "secret", "from": str(since), "to": str(until)},
        {"tenant": "secret", "from": "2026-10-05", "to": "2026-10-08T12:00:00Z"},
    ):
        app = opened(monkeypatch, published, path, **link)
        assert app.title[0].value.startswith(said)
        assert app.query_params["tenant"] == "secret"
        assert app.query_params["time"] == "2026-10-05..2026-10-08"
        assert not {"var-tenant", "from", "to"} & set(app.query_params)


def test_a_link_over_a_whole_month_opens_the_month(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = [int(datetime(2026, 10 + n, 1, 4 + n, tzinfo=UTC).timestamp() * 1000) for n in (0, 1)]
    app = opened(monkeypatch, published, **{"from": str(bounds[0]), "to": str(bounds[1] - 3_600_000)})
    assert app.title[0].value.startswith("October 2026: the fleet cost")


@pytest.mark.parametrize(
    "link", [{"from": "now-7d", "to": "now"}, {"from": "9" * 30, "to": "1"}, {"var-tenant": "$__all"}]
)
def test_a_link_that_says_nothing_here_opens_the_usual(
    published: Path, monkeypatch: pytest.MonkeyPatch, link: dict[str, str]
) -> None:
    assert opened(monkeypatch, published, **link).title[0].value.startswith("November 2026: the fleet cost")
