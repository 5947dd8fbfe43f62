"""The app over a year of 1,000 GPUs: first content, a filter, and fifty people, each at their own pace or all at once.

What is published is written straight into its tables, since what is measured is the reading. Prints each number
beside its limit and exits 1 when one is over it.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from bench._results import record
from gpuledger.webapp import SETTINGS, free_port, streamlit_command

LIMITS = {"app_first_content_s": 1.0, "app_filter_ms": 300.0, "app_p95_50_sessions_ms": 1000.0}
TENANTS, SESSIONS, FILTERS, ROUNDS = 20, 50, 5, 4
THINK_S, PATIENCE_S = 3.0, 60.0
TENANT_IDS = [f"team-{n:02}" for n in range(TENANTS)]

CONFIG = "currency: USD\ntimezone: UTC\ntenants:\n" + "".join(f"  - {{id: {t}}}\n" for t in TENANT_IDS)


def published(folder: Path) -> Path:
    """Write a year of 1,000 GPUs as it is published; return the configuration."""
    (folder / "gpuledger.yaml").write_text(CONFIG)
    target = folder / "ledger" / "published"
    target.mkdir(parents=True)
    with duckdb.connect(str(target / "fleet-1.duckdb")) as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        for statement in Path(__file__).with_suffix(".sql").read_text().split(";\n"):
            if statement.strip():
                connection.execute(statement).fetchall()
    pointer = {"sequence": 1, "as_of": "2026-12-01T00:00:00+00:00", "made_from": "", "fleet": "fleet-1.duckdb"}
    (target / "current.json").write_text(json.dumps({**pointer, "tenants": {}}))
    return folder / "gpuledger.yaml"


@contextmanager
def served(config: Path) -> Iterator[int]:
    """Serve the app; yield the port."""
    port = free_port(first=18801)
    script = Path(__file__).parents[1] / "app" / "serve.py"
    log = config.with_name("server.log")
    with log.open("w") as stream:
        process = subprocess.Popen(
            streamlit_command(script, address="127.0.0.1", port=port),
            env=os.environ | SETTINGS | {"GPULEDGER_CONFIG": str(config), "PYTHONUNBUFFERED": "1"},
            stdout=stream,
            stderr=stream,
        )
    try:
        while "URL: " not in log.read_text():
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


class Session:
    """A browser tab as the server sees it: a web socket on which it asks for runs."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def run(self, **address: str) -> tuple[float, float]:
        """Ask for a run; return the seconds to its title and to its end."""
        message = BackMsg()
        message.rerun_script.query_string = urlencode(address)
        begun, title = time.perf_counter(), None
        await self.socket.send(message.SerializeToString())
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(await asyncio.wait_for(self.socket.recv(), PATIENCE_S))
            heading = answer.delta.new_element.HasField("heading")
            if title is None and heading and answer.delta.new_element.heading.tag == "h1":
                title = time.perf_counter() - begun
            if answer.HasField("script_finished"):
                ended = time.perf_counter() - begun
                assert title is not None, "the page has no title"
                return title, ended


def address(number: int) -> dict[str, str]:
    """A view that nobody has asked for yet, as far as possible."""
    return {"tenant": TENANT_IDS[number % TENANTS], "time": f"2026-{1 + number // TENANTS % 11:02}"}


@asynccontextmanager
async def session_of(port: int) -> AsyncIterator[Session]:
    """Open a tab."""
    async with connect(
        f"ws://127.0.0.1:{port}/_stcore/stream",
        origin=Origin(f"http://127.0.0.1:{port}"),
        subprotocols=[Subprotocol("streamlit")],
        open_timeout=PATIENCE_S,
        max_size=None,
    ) as socket:
        yield Session(socket)


async def at_their_pace(port: int) -> dict[str, float]:
    """One person, then fifty, each of whom looks at what they see before they ask again."""
    async with session_of(port) as session:
        await session.run()
    first, filters = [], []
    for number in range(5):
        async with session_of(port) as session:
            first.append((await session.run())[1])
            filters += [(await session.run(**address(5 * number + n)))[1] for n in range(5)]
    crowd = await asyncio.gather(*(_person(port, n) for n in range(SESSIONS)))
    return {
        "app_first_content_s": statistics.median(first),
        "app_filter_ms": 1000 * statistics.median(filters),
        "app_p95_50_sessions_ms": _p95_ms(crowd),
    }


async def _person(port: int, number: int) -> list[float]:
    chance = random.Random(number)
    await asyncio.sleep(chance.uniform(0, 2 * THINK_S))
    times = []
    async with session_of(port) as session:
        await session.run()
        for n in range(FILTERS):
            await asyncio.sleep(chance.uniform(0, 2 * THINK_S))
            times.append((await session.run(**address(number * FILTERS + n)))[1])
    return times


async def in_lockstep(port: int) -> dict[str, float]:
    """Fifty people who all ask at the same instant, each for a view of their own that nobody has asked for before."""
    together = asyncio.Barrier(SESSIONS)

    async def person(number: int) -> list[float]:
        times = []
        async with session_of(port) as session:
            await session.run()
            for n in range(ROUNDS):
                await together.wait()
                times.append((await session.run(**address(number * ROUNDS + n)))[1])
        return times

    return {"app_p95_50_lockstep_ms": _p95_ms(await asyncio.gather(*(person(n) for n in range(SESSIONS))))}


def _p95_ms(people: list[list[float]]) -> float:
    times = sorted(seconds for person in people for seconds in person)
    return 1000 * times[int(0.95 * len(times))]


def main() -> int:
    scores = {"app_load_average": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        config = published(Path(folder))
        for people in (at_their_pace, in_lockstep):
            # A server of its own: what one has answered already is no work for it.
            with served(config) as port:
                scores |= asyncio.run(people(port))
    record(scores=scores)
    over = {name: value for name, value in scores.items() if value > LIMITS.get(name, math.inf)}
    for name, value in over.items():
        print(f"over its limit: {name} is {value:.3f}, at most {LIMITS[name]}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
