"""A whole Slurm on loopback: munge, MariaDB, slurmdbd, slurmctld and two slurmd whose GPUs are files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PROGRAMS: Final = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacct")
PATIENCE_S: Final = 60.0
NODES: Final = ("n1", "n2")
GPUS_PER_NODE: Final = 4
SHARDS_PER_GPU: Final = 4
_JOB_TIMES: Final = ("time_submit", "time_eligible", "time_start", "time_end")
WEIGHTS: Final = "CPU=1.0,Mem=0.25G,GRES/gpu=12.0"


class Slurm:
    """Use as a context manager. Nothing outside `folder` is written, and no daemon outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._ports = _free_ports(4 + len(NODES))
        self.environ = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "SLURM_TIME_FORMAT": "standard",
            "TZ": "UTC",
        }

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def run(self, *command: str) -> str:
        """What a client of Slurm prints."""
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, *options: str, script: str = "sleep 5") -> str:
        """Submit a batch job; return its id."""
        path = self.folder / "job.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        told = self.run(
            "sbatch", "--parsable", "-t", "10", "-o", "/dev/null", "-D", str(self.folder), *options, str(path)
        )
        return told.strip().partition(";")[0]

    def wait(self, what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """Ask again until something holds."""
        deadline = time.monotonic() + patience_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {patience_s:.0f} s")
            time.sleep(0.2)

    def state(self, job: str) -> str:
        """How a job is, by its first line."""
        found = re.search(r"JobState=(\w+)", self.run("scontrol", "show", "job", job))
        return found[1] if found else "GONE"

    def wait_for_state(self, job: str, *states: str) -> None:
        """Wait until a job is in one of some states."""
        self.wait(f"job {job} is {self.state(job)}, not {' or '.join(states)}", lambda: self.state(job) in states)

    def wait_for_accounts(self, job: str) -> None:
        """Wait until the database knows that a job, and each one before it, is over.

        The controller knows it first: for up to half a second the accounts still have a cancelled job as PENDING,
        without its GPUs, or don't have it at all.
        """

        def over() -> bool:
            told = self.run("sacct", "-P", "-X", "-n", "--duplicates", "-S", "now-1hour", "-o", "JobID,State").split(
                "\n"
            )
            states = dict(line.split("|") for line in told if line)
            return job in states and not {"PENDING", "RUNNING"} & set(states.values())

        self.wait(f"job {job} ends in the accounts", over)

    def _start(self) -> None:
        self.folder.chmod(0o755)  # munged asks who may reach its socket
        for name in ("state", "spool", "db", "run"):
            (self.folder / name).mkdir()
        self._write_configuration()
        self._start_munge()
        self._start_database()
        slurmdbd, slurmctld = self._ports[1:3]
        self._daemon("slurmdbd", "-D")
        self.wait("slurmdbd", lambda: _listens(slurmdbd))
        self._sacctmgr("add", "cluster", "loopback")
        for account, parent in (("research", "root"), ("vision", "research"), ("audio", "research")):
            self._sacctmgr("add", "account", account, f"parent={parent}", "cluster=loopback")
        self._sacctmgr("add", "user", "root", "account=vision,audio", "cluster=loopback")
        self._daemon("slurmctld", "-D", "-i")
        self.wait("slurmctld", lambda: _listens(slurmctld))
        # The controller tells the database that there are GPUs.
        self._sacctmgr("modify", "account", "research", "set", "GrpTRES=gres/gpu=64")
        for node in NODES:
            self._daemon("slurmd", "-D", "-N", node)
        self.wait("nodes", lambda: self.run("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(NODES))

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._daemon(
            "munged", "-F", "--force", f"--key-file={key}", f"--socket={self.folder}/run/munge.socket",
            f"--pid-file={self.folder}/run/munged.pid", f"--log-file={self.folder}/munged.log",
            f"--seed-file={self.folder}/munge.seed",
        )  # fmt: skip
        self.wait("munged", (self.folder / "run" / "munge.socket").exists)

    def _start_database(self) -> None:
        data = self.folder / "db"
        options = ["--no-defaults", f"--datadir={data}", "--user=root"]
        subprocess.run(
            ["mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True, capture_output=True,
        )  # fmt: skip
        self._daemon(
            "mariadbd", *options, f"--socket={self.folder}/run/db.socket", f"--port={self._ports[0]}",
            "--bind-address=127.0.0.1", f"--pid-file={self.folder}/run/db.pid",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900",
        )  # fmt: skip
        self.wait("mariadbd", lambda: _listens(self._ports[0]))
        for sql in ("CREATE USER slurm@'127.0.0.1'", "GRANT ALL ON *.* TO slurm@'127.0.0.1'"):
            self._sql(sql)

    def rest(self) -> tuple[str, str]:
        """Start slurmrestd; return its URL and the file with a token of this user's."""
        (port,) = _free_ports(1)
        token = self.folder / "token"
        token.write_text(self.run("scontrol", "token", "lifespan=3600").strip().partition("=")[2])
        apart = {"SLURMRESTD_SECURITY": "disable_user_check", "SLURM_JWT": "daemon"}
        self._daemon("slurmrestd", "-a", "rest_auth/jwt", f"127.0.0.1:{port}", environ=apart)
        self.wait("slurmrestd", lambda: _listens(port))
        return f"http://127.0.0.1:{port}", str(token)

    def roll_up(self, hours: int) -> None:
        """Let the database sum up what was done, as it does when an hour is over: move it all some hours back."""
        by = 3600 * hours
        job = ", ".join(f"{column}=IF({column}>0,{column}-{by},0)" for column in _JOB_TIMES)
        event = f"time_start=time_start-{by}, time_end=IF(time_end>0,time_end-{by},0)"
        ran = ", ".join(f"{each}_rollup={each}_rollup-{2 * by}" for each in ("hourly", "daily", "monthly"))
        for table, changes in (("job", job), ("event", event), ("last_ran", ran)):
            self._sql(f"UPDATE slurm_acct.loopback_{table}_table SET {changes}")
        database = next(daemon for daemon in self._daemons if daemon.args[0] == "slurmdbd")  # type: ignore[index]
        database.terminate()
        database.wait(PATIENCE_S)
        self._daemons.remove(database)
        self._daemon("slurmdbd", "-D")  # it sums up when it starts
        self.wait("slurmdbd", lambda: _listens(self._ports[1]))

    def _sql(self, sql: str) -> None:
        subprocess.run(
            ["mariadb", "--no-defaults", "-u", "root", f"--socket={self.folder}/run/db.socket", "-e", sql],
            check=True, capture_output=True,
        )  # fmt: skip

    def _sacctmgr(self, *words: str) -> None:
        self.run("sacctmgr", "-i", *words)

    def _write_configuration(self) -> None:
        folder = self.folder
        database, slurmdbd, slurmctld, _, *slurmds = self._ports
        for node in NODES:
            for minor in range(GPUS_PER_NODE):
                device = folder / f"gpu-{node}-{minor}"
                os.mknod(device, 0o600 | 0o020000, os.makedev(1, 3))  # another /dev/null
        (folder / "slurmdbd.conf").write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={folder}/run/munge.socket\nDbdHost=localhost\nDbdAddr=127.0.0.1\n"
            f"DbdPort={slurmdbd}\nSlurmUser=root\nPidFile={folder}/run/slurmdbd.pid\nLogFile={folder}/slurmdbd.log\n"
            f"StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort={database}\nStorageUser=slurm\n"
            "StorageLoc=slurm_acct\n"
        )
        (folder / "slurmdbd.conf").chmod(0o600)
        (folder / "jwt.key").write_bytes(os.urandom(32))
        (folder / "jwt.key").chmod(0o600)
        host = socket.gethostname()
        nodes = "".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=4096 "
            f"Gres=gpu:a100:{GPUS_PER_NODE},shard:{GPUS_PER_NODE * SHARDS_PER_GPU} State=UNKNOWN\n"
            for node, port in zip(NODES, slurmds, strict=True)
        )
        (folder / "slurm.conf").write_text(
            f"ClusterName=loopback\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={slurmctld}\n"
            f"AuthType=auth/munge\nAuthInfo=socket={folder}/run/munge.socket,cred_expire=5\nCredType=cred/munge\nSlurmUser=root\n"
            f"SlurmdUser=root\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool/%n\n"
            f"SlurmctldPidFile={folder}/run/slurmctld.pid\nSlurmdPidFile={folder}/run/slurmd-%n.pid\n"
            f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd-%n.log\n"
            "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n"
            "ReturnToService=2\nSlurmdParameters=config_overrides\nSchedulerType=sched/backfill\n"
            "SchedulerParameters=bf_interval=1,sched_interval=1\nSelectType=select/cons_tres\n"
            "SelectTypeParameters=CR_Core\nGresTypes=gpu,shard\nPriorityType=priority/basic\n"
            "JobAcctGatherType=jobacct_gather/none\nJobRequeue=1\nKillWait=1\nMinJobAge=3600\n"
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={slurmdbd}\nAccountingStoragePass={folder}/run/munge.socket\nAccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/shard\n"
            f'{nodes}PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP TRESBillingWeights="{WEIGHTS}"\n'
        )
        if can_sign():
            for name in ("slurm.conf", "slurmdbd.conf"):
                with (folder / name).open("a") as file:
                    file.write(f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={folder}/jwt.key\n")
        (folder / "gres.conf").write_text(
            "".join(f"NodeName={n} Name=gpu Type=a100 File={folder}/gpu-{n}-[0-{GPUS_PER_NODE - 1}]\n" for n in NODES)
            + "".join(f"NodeName={n} Name=shard Count={GPUS_PER_NODE * SHARDS_PER_GPU}\n" for n in NODES)
        )

    def _daemon(self, program: str, *options: str, environ: Mapping[str, str] | None = None) -> None:
        with (self.folder / f"{program}.out").open("ab") as log:
            self._daemons.append(
                subprocess.Popen(
                    [program, *options],
                    env={**self.environ, **(environ or {})},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def missing() -> Sequence[str]:
    """Programs that a whole Slurm needs and this machine lacks."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


def can_sign() -> bool:
    """Whether this Slurm knows JWTs, and has slurmrestd to show them to."""
    plugins = Path("/usr/lib").glob("*/slurm*/auth_jwt.so")
    return shutil.which("slurmrestd") is not None and any(plugins)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
