"""Who is told what: by amtool, and by a live Alertmanager whose receivers are a loopback server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from alerts.build import build, every_alert
from alerts.routes import SECRETS, alertmanager, read_maintenance
from exporter.errors import UsageError
from tests.alerts.promtool import example

ALERTS = [alert for alerts in every_alert(example()).values() for alert in alerts]
TENANTS = [tenant.id for tenant in example().tenants]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("routes")
    build(example(), out)
    return out / "alertmanager.yml"


def receivers(file: Path, **labels: str) -> list[str]:
    done = subprocess.run(
        ["amtool", "config", "routes", "test", f"--config.file={file}", *(f"{k}={v}" for k, v in labels.items())],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip().split(",")


@pytest.mark.needs_program("amtool")
def test_amtool_accepts_the_configuration(built: Path) -> None:
    assert subprocess.run(["amtool", "check-config", built], capture_output=True, check=False).returncode == 0


@pytest.mark.needs_program("amtool")
@pytest.mark.parametrize("tenant", TENANTS)
def test_every_alert_reaches_whom_it_is_for(built: Path, tenant: str) -> None:
    for alert in ALERTS:
        labels = {"alertname": alert.name, "severity": alert.severity, "audience": alert.audience}
        if alert.audience == "tenant":
            assert receivers(built, **labels, tenant=tenant) == [f"tenant-{tenant}"], alert.name
        else:
            expected = "platform-critical" if alert.severity == "critical" else "platform"
            assert receivers(built, **labels, tenant=tenant) == [expected], alert.name


@pytest.mark.needs_program("amtool")
def test_what_is_critical_to_a_tenant_reaches_both(built: Path) -> None:
    found = receivers(built, audience="tenant", severity="critical", tenant="vision")
    assert found == ["platform-critical", "tenant-vision"]


@pytest.mark.needs_program("amtool")
def test_what_nobody_knows_reaches_the_platform(built: Path) -> None:
    assert receivers(built, audience="tenant", severity="info", tenant="gone") == ["platform"]
    assert receivers(built, alertname="SomebodyElses") == ["platform"]


def test_maintenance_mutes_all_but_what_is_critical(tmp_path: Path) -> None:
    file = tmp_path / "maintenance.yml"
    file.write_text("- {weekdays: [sunday], times: [{start_time: '02:00', end_time: '06:00'}]}\n")
    made = alertmanager(example(), read_maintenance(file))
    muted = [route for route in flat(made["route"]) if "mute_time_intervals" in route]
    assert {route["receiver"] for route in muted} == {"platform", *(f"tenant-{tenant}" for tenant in TENANTS)}
    if shutil.which("amtool"):
        (tmp_path / "am.yml").write_text(yaml.safe_dump(made))
        assert subprocess.run(["amtool", "check-config", tmp_path / "am.yml"], check=False).returncode == 0


def flat(route: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield route
    for child in route.get("routes", []):
        yield from flat(child)


@pytest.mark.parametrize("text", ["{", "sunday", "[sunday]"])
def test_a_wrong_maintenance_file_is_one_clear_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.yml").write_text(text)
    with pytest.raises(UsageError, match=r"m\.yml"):
        read_maintenance(tmp_path / "m.yml")


def test_no_secret_and_no_address_is_in_the_configuration(built: Path) -> None:
    text = built.read_text()
    assert "http" not in text
    assert text.count(f"api_url_file: {SECRETS}/") == 2 + len(TENANTS)


class Mailbox:
    """A loopback server that keeps what is posted, by path."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        mailbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                mailbox.got.append((self.path, json.loads(body)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def texts(self, path: str) -> list[str]:
        return [json.dumps(body) for where, body in list(self.got) if where == path]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Manager:
    """A live Alertmanager."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, alerts: Sequence[dict[str, str]]) -> None:
        body = [{"labels": labels, "annotations": {"summary": labels["alertname"]}} for labels in alerts]
        assert httpx.post(f"{self.url}/api/v2/alerts", json=body).status_code == 200

    def state(self, name: str, **labels: str) -> str | None:
        for alert in httpx.get(f"{self.url}/api/v2/alerts").json():
            if alert["labels"]["alertname"] == name and labels.items() <= alert["labels"].items():
                found: str = alert["status"]["state"]
                return found
        return None


def eventually(holds: Any) -> bool:
    """Whether something comes true; the deadline is far beyond what any machine needs."""
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Manager, Mailbox]]:
    mailbox = Mailbox()
    build(example(), tmp_path)
    (tmp_path / "secrets").mkdir()
    for name in ("platform", "platform-critical", *(f"tenant-{tenant}" for tenant in TENANTS)):
        (tmp_path / "secrets" / f"{name}.url").write_text(f"http://127.0.0.1:{mailbox.server.server_port}/{name}")
    config = tmp_path / "alertmanager.yml"
    text = config.read_text().replace(SECRETS, str(tmp_path / "secrets"))
    config.write_text(text.replace("group_wait: 30s", "group_wait: 1s").replace("group_wait: 10s", "group_wait: 1s"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            "prometheus-alertmanager", f"--config.file={config}", f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    manager = Manager(f"http://127.0.0.1:{port}")

    def ready() -> bool:
        try:
            return httpx.get(f"{manager.url}/-/ready").status_code == 200
        except httpx.TransportError:
            return False

    try:
        assert eventually(ready)
        yield manager, mailbox
    finally:
        process.terminate()
        process.wait()
        mailbox.close()


PLATFORM = {"audience": "platform"}


@pytest.mark.needs_program("prometheus-alertmanager")
def test_a_live_alertmanager_groups_routes_and_holds_back(live: tuple[Manager, Mailbox]) -> None:
    manager, mailbox = live
    on_n1 = PLATFORM | {"node": "n1"}
    manager.post([
        {"alertname": "GpuNodeDown", "severity": "critical", **on_n1},
        {"alertname": "GpuRowRemapPending", "severity": "warning", "gpu": "0", **on_n1},
        {"alertname": "GpuExporterDown", "severity": "critical", **PLATFORM, "node": "n2"},
        {"alertname": "GpuMissing", "severity": "critical", **PLATFORM, "node": "n2"},
        {"alertname": "GpuRowRemapFailed", "severity": "critical", "gpu": "1", **PLATFORM, "node": "n3"},
        {"alertname": "GpuMemoryHot", "severity": "warning", "gpu": "1", **PLATFORM, "node": "n3"},
        {"alertname": "GpuMemoryHot", "severity": "warning", "gpu": "2", **PLATFORM, "node": "n3"},
        {"alertname": "GpuMemoryHot", "severity": "warning", "gpu": "3", **PLATFORM, "node": "n3"},
        {"alertname": "TenantBudgetSpent", "severity": "warning", "audience": "tenant", "tenant": "vision"},
        {"alertname": "TenantBudgetBurnFast", "severity": "warning", "audience": "tenant", "tenant": "vision"},
        {"alertname": "TenantBudgetBurnFast", "severity": "warning", "audience": "tenant", "tenant": "speech"},
    ])  # fmt: skip
    assert eventually(lambda: len(mailbox.texts("/platform-critical")) >= 3 and mailbox.texts("/platform"))
    assert eventually(lambda: mailbox.texts("/tenant-vision") and mailbox.texts("/tenant-speech"))
    held_back = [("GpuRowRemapPending", "n1"), ("GpuMissing", "n2")]
    assert all(manager.state(name, node=node) == "suppressed" for name, node in held_back)
    assert manager.state("GpuMemoryHot", gpu="1") == "suppressed"
    assert manager.state("TenantBudgetBurnFast", tenant="vision") == "suppressed"
    (hot,) = [text for text in mailbox.texts("/platform") if "GpuMemoryHot" in text]
    # One message for the node, with both cards that nothing explains.
    assert hot.count("Runbook") == 2
    assert "TenantBudgetSpent" in "".join(mailbox.texts("/tenant-vision"))
    assert "TenantBudgetBurnFast" in "".join(mailbox.texts("/tenant-speech"))
    assert not mailbox.texts("/tenant-sandbox")
