"""A small ledger for the app: two months, three tenants, and names that try to be more than names."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from streamlit import config as streamlit_config
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from pipelines.config import load
from pipelines.operations import run_once
from tests.app.serving import CHROMIUM, FLAGS
from tests.programs import why_missing

SCRIPT: Final = "<script>window.hostile = 1</script>"
MARKDOWN: Final = "**bold** [link](javascript:window.hostile=1) :red[x] $y$ :material/home: # _z_ `c`"
IMAGE: Final = '"><img src=x onerror="window.hostile=1">'
LONG: Final = "long-" * 60
RIGHT_TO_LEFT: Final = "שלום \u202eעולם"
EMOJI: Final = "🔥 train 🚀"
HOSTILE: Final = (SCRIPT, MARKDOWN, IMAGE, LONG, RIGHT_TO_LEFT, EMOJI)

CONFIG: Final[dict[str, Any]] = {
    "currency": "USD",
    "timezone": "America/New_York",
    "sources": [{"allocations": "allocations.csv"}, {"inventory": "inventory.csv"}, {"metrics": "metrics.prom"}],
    "tenants": [
        {"id": "research", "name": "Research"},
        {"id": "vision", "name": MARKDOWN, "parent": "research", "budget": {"monthly": "500.00"}},
        {"id": "speech", "name": SCRIPT, "quota": {"gpus": 1}},
        {"id": "secret", "name": "Secret Project"},
    ],
    "rates": [
        {"model": "*H100*", "on_demand": "3.20", "reserved": "2.10", "overflow": "3.50"},
        {"model": "*", "on_demand": "2.50"},
    ],
    "reservations": [
        {"id": IMAGE, "tenant": "vision", "model": "*H100*", "gpus": 1, "from": "2026-10-01", "to": "2026-12-01"}
    ],
    "overheads": [{"name": "storage", "monthly": "100.00"}],
    "idle": {"policy": "proportional"},
}
GRANTS: Final = [
    {"group": "gpu-operators", "role": "operator"},
    {"group": "finance", "role": "finance"},
    {"group": "team-vision", "tenants": ["vision"]},
    {"user": "both@*", "tenants": ["vision", "speech"]},
]
OIDC: Final = {"sign_in": "oidc", "secrets_file": "oidc.toml", "grants": GRANTS}
MODELS: Final = ("NVIDIA H100 80GB HBM3", f"H100 {IMAGE}")
DEVICES: Final = tuple(f"GPU-0000000{n}-0000-0000-0000-000000000000" for n in range(5))
NODES: Final = ("node-1", SCRIPT, MARKDOWN, RIGHT_TO_LEFT, LONG)


def leases() -> Iterator[tuple[str, ...]]:
    """Rows of allocations.csv: two whole local months, so that they can be compared."""
    yield "2026-10-01T04:00:00Z", "2026-12-01T05:00:00Z", "", DEVICES[0], "", "secret", "secret-job", ""
    for n, name in enumerate(HOSTILE):
        start = datetime(2026, 10, 5 + n, 12, tzinfo=UTC)
        for month in (0, 31):
            day = start + timedelta(days=month)
            end = day + timedelta(hours=7 + n)
            owner = ("vision", "speech", "")[n % 3]
            yield f"{day:%FT%TZ}", f"{end:%FT%TZ}", "", DEVICES[1 + n % 3], "", owner, name, ""
    yield "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", "1", "", MODELS[0], "vision", "", "down"


def samples() -> Iterator[str]:
    """Lines of metrics.prom: a day in November in which the second device is busy and the third is not."""
    begin = datetime(2026, 11, 5, tzinfo=UTC)
    for device, busy in ((DEVICES[1], 80), (DEVICES[2], 0)):
        for minute in range(0, 3 * 24 * 60, 5):
            at = int((begin + timedelta(minutes=minute)).timestamp() * 1000)
            yield f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{device}",modelName="{MODELS[0]}"}} {busy} {at}'


def write(folder: Path, **changed: Any) -> Path:
    """Write the configuration and its sources; return the configuration's path."""
    with (folder / "allocations.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["start", "end", "gpus", "device", "model", "tenant", "workload", "class"])
        rows.writerows(leases())
    with (folder / "inventory.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["node", "device", "model", "gpus", "slots", "owner", "from", "to"])
        for node, device in zip(NODES, DEVICES, strict=True):
            model = MODELS[device == DEVICES[4]]
            rows.writerow((node, device, model, "", "", "", "2026-10-01T04:00:00Z", "2026-12-01T05:00:00Z"))
    (folder / "metrics.prom").write_text("\n".join(samples()) + "\n")
    path = folder / "gpuledger.yaml"
    path.write_text(yaml.safe_dump(CONFIG | changed, allow_unicode=True))
    return path


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a published ledger; read it, and change nothing."""
    path = write(tmp_path_factory.mktemp("ledger"))
    run_once(load(path))
    return path


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published ledger whose app asks for a sign-in."""
    path = write(tmp_path_factory.mktemp("guarded"), access=OIDC)
    run_once(load(path))
    return path


@pytest.fixture(autouse=True)
def _on_loopback() -> Iterator[None]:
    """The app checks where its server listens; a script run by a test has no server."""
    before = streamlit_config.get_option("server.address")
    streamlit_config.set_option("server.address", "127.0.0.1")
    yield
    streamlit_config.set_option("server.address", before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if missing := why_missing("chromium"):
        pytest.skip(missing)
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


def opened(
    monkeypatch: pytest.MonkeyPatch,
    config: Path,
    page: str = "overview",
    user: dict[str, Any] | None = None,
    **address: str,
) -> AppTest:
    """The app at an address, as a user sees it."""
    monkeypatch.setenv("GPULEDGER_CONFIG", str(config))
    script = Path(__file__).parents[2] / "app" / "main.py"
    app = AppTest.from_file(str(script), default_timeout=60)
    if user is not None:
        app.user = user
    for key, value in address.items():
        app.query_params[key] = value
    app.run()
    if page != "overview":
        # AppTest switches between files; these pages are functions, which Streamlit knows by their address.
        app._page_hash = calc_hash(page)
        app.run()
    return app


def shown(app: AppTest) -> str:
    """Every word and number on the page."""
    text = (
        app.title,
        app.header,
        app.subheader,
        app.markdown,
        app.caption,
        app.error,
        app.info,
        app.success,
        app.warning,
    )
    parts = [str(element.value) for kind in text for element in kind]
    parts += [str(e.proto.body) for e in app.get("html")]
    parts += [f"{m.label} {m.value} {m.delta}" for m in app.metric]
    parts += [frame.value.to_string() for frame in app.dataframe]
    parts += [str(option) for box in app.selectbox for option in box.options]
    parts += [str(chart.proto) for chart in app.get("vega_lite_chart")]
    return "\n".join(parts)
