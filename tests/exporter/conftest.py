from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from exporter.fake_nvml import FakeNvml
from exporter.fleet_file import parse_fleet
from exporter.nvml import NvmlBackend
from exporter.sampler import Sampler

SetState = Callable[[int, str, int], None]
MakeBackend = Callable[..., tuple[NvmlBackend, FakeNvml]]
MakeSampler = Callable[..., Sampler]
HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "data"


class Clock:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet_backend(clock: Clock) -> MakeBackend:
    """A backend over a pretended fleet, and the pretended driver."""

    def make(*gpus: dict[str, Any]) -> tuple[NvmlBackend, FakeNvml]:
        driver = FakeNvml(parse_fleet({"gpus": list(gpus)}), clock)
        return NvmlBackend(driver, clock=clock), driver

    return make


@pytest.fixture
def make_sampler(clock: Clock) -> Iterator[MakeSampler]:
    """Samplers on the test's clock, closed at its end; a hanging call costs a tenth of a second."""
    made: list[Sampler] = []

    def make(backend: Any, adapters: Any = (), **options: Any) -> Sampler:
        options = {"node": "node1", "deadline": 0.5, "wall_clock": clock} | options
        made.append(Sampler(backend, adapters, clock=clock, **options))
        return made[-1]

    yield make
    for sampler in made:
        sampler.close()


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The pretended libnvidia-ml.so.1."""
    if not shutil.which("gcc"):
        pytest.skip("needs a C compiler: apt-get install gcc")
    target = tmp_path_factory.mktemp("stub") / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1",
         str(HERE / "nvml_stub.c"), "-o", str(target), "-lpthread"],
        check=True,
    )  # fmt: skip
    library = ctypes.CDLL(str(target))
    library.stub_set.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_ulonglong]
    return library


@pytest.fixture
def stub(stub_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Iterator[SetState]:
    """``stub(gpu, what, value)`` sets the state of the library that ``pynvml`` now calls."""
    monkeypatch.setattr(pynvml, "nvmlLib", stub_library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    stub_library.stub_reset()

    def set_state(gpu: int, what: str, value: int) -> None:
        assert stub_library.stub_set(gpu, what.encode(), value) == 0, what

    yield set_state
    stub_library.stub_reset()
