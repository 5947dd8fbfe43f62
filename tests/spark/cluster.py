"""A Spark standalone cluster on loopback: a master, two workers and a Spark Connect server, each a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.pipelines.engine.conftest import await_port, free_port

WORKERS: Final = 2
CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
LOCAL: Final = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}


@contextmanager
def cluster(spark_home: Path, folder: Path, repository: Path) -> Iterator[str]:
    """Provide the URL of a cluster's Spark Connect server; all of it is stopped at the end.

    Args:
        spark_home: of a Spark distribution.
        folder: where it works: ``worker-1`` and ``worker-2`` hold what each of the two ran.
        repository: what its workers import this program from.
    """
    settings = {
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(repository),
        "PYSPARK_PYTHON": sys.executable,
    }

    def start(name: str, *command: str, port: int | None = None, **more: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(spark_home / "bin" / command[0]), *command[1:]],
                env={**os.environ, **settings, **more},
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        stack.callback(_stop, process)
        if port is not None:
            await_port(port, process)

    with ExitStack() as stack:
        port, connect = free_port(), free_port()
        at = ("--host", "127.0.0.1", "--webui-port", "0")
        small = {"SPARK_DAEMON_MEMORY": "256m"}
        one = "org.apache.spark.deploy"
        start("master", "spark-class", f"{one}.master.Master", *at, "--port", str(port), port=port,
              SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false", **small)  # fmt: skip
        for number in range(1, WORKERS + 1):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"))
            url = f"spark://127.0.0.1:{port}"
            start(f"worker-{number}", "spark-class", f"{one}.worker.Worker", *at, *work, url, **small)
        conf = {**LOCAL, "spark.connect.grpc.binding.port": str(connect)}
        told = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        start("connect", "spark-submit", "--master", f"spark://127.0.0.1:{port}", "--driver-memory", "512m", *told,
              "--class", CONNECT, "spark-internal", port=connect)  # fmt: skip
        yield f"sc://127.0.0.1:{connect}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and those it started: all are of a session of their own."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
