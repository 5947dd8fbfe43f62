"""The simulated fleet on a real Prometheus, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.alerts.fleet import Fleet, stored
from tests.programs import why_missing


@pytest.fixture(scope="session", params=["ours", "dcgm"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The fleet under our exporter's names, and under dcgm-exporter's alone."""
    if reason := why_missing("prometheus"):
        pytest.skip(reason)
    made = stored(tmp_path_factory.mktemp(f"fleet-{request.param}"), request.param)
    try:
        yield made
    finally:
        made.server.close()
