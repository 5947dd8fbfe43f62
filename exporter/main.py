"""``gpuledger exporter``: the command line of the exporter."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

from exporter.dcgm_names import DcgmFamilies, default_counters, load_counters
from exporter.devices import Backend, BackendError
from exporter.durations import parse_seconds
from exporter.endpoints import Builder, Endpoints
from exporter.errors import UsageError, WorkError
from exporter.exposition import Renderer
from exporter.families import FamilyBuilder
from exporter.json_lines import log_as_json, log_line
from exporter.kernel_log import KernelLog
from exporter.log_lines import open_lines
from exporter.owners import slurm_cgroups
from exporter.owners.claims import Adapter
from exporter.owners.kubernetes import SOCKET, KubernetesAdapter
from exporter.owners.kubernetes_api import SERVICE_ACCOUNT, KubernetesApi
from exporter.owners.processes import ProcessAdapter
from exporter.owners.slurm import CGROUP_ROOT, GPUSTAT, SlurmAdapter
from exporter.owners.slurm_jobs import SlurmJobs
from exporter.owners.static import StaticAdapter, load_owners
from exporter.pci import cards_of_the_driver
from exporter.sampler import Sampler
from exporter.server import Server
from exporter.web_config import load_web_config

_LOG = logging.getLogger(__name__)
DEFAULT_LISTEN: Final = "0.0.0.0:9836"
_CLOSING_SECONDS: Final = 3.0
# More than GPM's samples have to be apart.
_BETWEEN_TWO_PASSES_SECONDS: Final = 0.5
_PORT_AT_MOST: Final = 65535
_DEVICES_AT_MOST: Final = 1024
OWNERS: Final = ("kubernetes", "slurm", "static", "processes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the exporter, with an example."""
    parser.epilog = (
        "example:\n"
        "  gpuledger exporter --listen 127.0.0.1:9836 --fake fleet.yaml\n"
        "  gpuledger exporter --dcgm-names --web-config web.yml"
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT", help=f"where to serve (default {DEFAULT_LISTEN})"
    )
    parser.add_argument(
        "--interval",
        type=_interval,
        default=15.0,
        metavar="TIME",
        help="time between passes, as 15s or 1m (default 15s)",
    )
    parser.add_argument("--once", action="store_true", help="print one pass to stdout and exit")
    parser.add_argument(
        "--expect", type=_whole(0, _DEVICES_AT_MOST), metavar="N", help="how many GPUs this node should have"
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how it says what it does, on stderr"
    )
    parser.add_argument(
        "--node-name", metavar="NAME", help="value of the node label (default $NODE_NAME, else host name)"
    )
    gpus = parser.add_argument_group("GPUs")
    gpus.add_argument(
        "--backend", choices=("auto", "nvml", "dcgm"), default="auto", help="auto: DCGM if a host engine answers"
    )
    gpus.add_argument("--dcgm-address", metavar="HOST:PORT|SOCKET", help="DCGM host engine (default 127.0.0.1:5555)")
    gpus.add_argument(
        "--kernel-log",
        metavar="FILE|journal",
        help="read XIDs of cards without events from the kernel's log: a file, /dev/kmsg, or journal",
    )
    gpus.add_argument(
        "--follow-pcie",
        action="store_true",
        help="read PCIe byte counters that wrap many times a second; only for cards that aren't profiled",
    )
    gpus.add_argument(
        "--fake", type=Path, metavar="FLEET.yaml", help="pretend to have the GPUs that the file describes"
    )
    _add_owner_arguments(parser.add_argument_group("owners"))
    names = parser.add_argument_group("names and serving")
    names.add_argument("--dcgm-names", action="store_true", help="add dcgm-exporter's names, labels and units")
    names.add_argument(
        "--counters", type=Path, metavar="FILE", help="dcgm-exporter's counters CSV; implies --dcgm-names"
    )
    names.add_argument(
        "--web-config", type=Path, metavar="FILE", help="TLS and basic auth, as Prometheus's web.config.file"
    )
    names.add_argument(
        "--max-connections",
        type=_whole(1, 1_000_000),
        default=2048,
        metavar="N",
        help="connections at a time (default 2048)",
    )


def _add_owner_arguments(group: Any) -> None:
    group.add_argument(
        "--owners",
        default="auto",
        metavar="LIST",
        help=f"sources in order of trust, from {', '.join(OWNERS)}; auto: those that are there; none",
    )
    group.add_argument("--owner-labels", action="store_true", help="put the owner's labels on every device series")
    group.add_argument("--pod-resources-socket", type=Path, default=SOCKET, metavar="PATH", help=f"default {SOCKET}")
    group.add_argument("--pod-labels", default="", metavar="LIST", help="pod labels to carry, from the API server")
    group.add_argument(
        "--gpustat-dir", type=Path, default=GPUSTAT, metavar="DIR", help=f"Slurm prolog files ({GPUSTAT})"
    )
    group.add_argument("--job-map-dir", type=Path, metavar="DIR", help="dcgm-exporter's HPC job mapping folder")
    group.add_argument("--cgroup-root", type=Path, default=CGROUP_ROOT, metavar="DIR", help=f"default {CGROUP_ROOT}")
    group.add_argument(
        "--proc", type=Path, default=Path("/proc"), metavar="DIR", help="the host's /proc (default /proc)"
    )
    group.add_argument("--static-owners", type=Path, metavar="FILE", help="a file that names owners; see the docs")


def _whole(minimum: int, maximum: int) -> Callable[[str], int]:
    """The type of an option that is a whole number in a range."""

    def read(text: str) -> int:
        # int() takes "1_0", " 1" and digits of every script.
        if not re.fullmatch(r"-?[0-9]{1,18}", text) or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(
                f"{text!r} was given, a whole number from {minimum} to {maximum} is needed"
            )
        return int(text)

    return read


def _interval(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("an interval is between 100ms and 60m")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Raises UsageError, ConfigError, BackendError."""
    host, port = _address(args.listen)
    if args.log_format == "json":
        log_as_json()
    settings = load_web_config(args.web_config) if args.web_config else None
    node = args.node_name or os.environ.get("NODE_NAME") or socket.gethostname()
    if not args.once and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read again
    builders = _builders(args)
    backend, bound = _backend(args)
    sampler = Sampler(
        backend,
        _adapters(args, node),
        node=node,
        interval=args.interval,
        expected=args.expect,
        bound=bound,
        kernel_log=KernelLog(open_lines(args.kernel_log), bound=bound) if args.kernel_log else None,
    )
    if args.once:
        return _print_one_pass(sampler, builders)
    _allow_open_files(args.max_connections)
    endpoints = Endpoints(
        builders,
        interval=args.interval,
        connections=lambda: (server.connections, server.refused),
        # OpenMetrics has no counters under DCGM's names: Prometheus would take them for series of unknown type.
        openmetrics=not (args.dcgm_names or args.counters),
    )
    server = Server(endpoints.answer, settings, max_connections=args.max_connections)
    told = partial(_told, json=args.log_format == "json")
    asyncio.run(_serve(server, sampler, endpoints, host, port, secure=bool(settings and settings.tls), told=told))
    return 0


def _told(text: str, *, json: bool) -> None:
    """Say something that isn't a trouble on stderr."""
    print(log_line(text, logger=__name__) if json else text, file=sys.stderr, flush=True)  # noqa: T201


async def _serve(
    server: Server,
    sampler: Sampler,
    endpoints: Endpoints,
    host: str,
    port: int,
    *,
    secure: bool,
    told: Callable[[str], None],
) -> None:
    stop = threading.Event()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, ended.set)
    # As everywhere a daemon reads its settings again; by default it would end.
    loop.add_signal_handler(signal.SIGHUP, server.reload)
    try:
        await server.start(host or None, port)
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can have such a name
        what = getattr(error, "strerror", None) or error
        raise WorkError(f"{host}:{port}: {what}; choose another with --listen") from error
    threading.Thread(target=sampler.run, args=(endpoints.publish, stop), name="sampler", daemon=True).start()
    scheme = "https" if secure else "http"
    named = f"[{host}]" if ":" in host else host or "[::]"
    told(f"serving {scheme}://{named}:{server.port}/metrics ({sampler.backend.name})")
    await ended.wait()
    stop.set()
    sampler.close()
    await server.stop()
    # A call may hang in the driver: that must not keep the process.
    closing = threading.Thread(target=sampler.backend.close, name="closing", daemon=True)
    closing.start()
    closing.join(_CLOSING_SECONDS)


def _allow_open_files(connections: int) -> None:
    """Raise the soft limit of open files so that the bound on connections is the one that counts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 256
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _print_one_pass(sampler: Sampler, builders: list[Builder]) -> int:
    snapshot = sampler.run_pass()
    if any(card.capabilities.get("profiling") for card in snapshot.cards):
        time.sleep(_BETWEEN_TWO_PASSES_SECONDS)  # profiling is the mean between two passes
        snapshot = sampler.run_pass()
    page = Renderer().render(family for builder in builders for family in builder.build(snapshot))
    sys.stdout.write(page.body(openmetrics=False, gzipped=False).decode())
    sampler.close()
    return 0 if snapshot.good else 1


def _address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})", text)
    if match is None or int(match["port"]) > _PORT_AT_MOST:
        example = "127.0.0.1:9836 or [::1]:9836"
        raise UsageError(f"--listen {text}: HOST:PORT was expected, for example {example}")
    return match["v6"] or match["host"], int(match["port"])


def _builders(args: argparse.Namespace) -> list[Builder]:
    builders: list[Builder] = [FamilyBuilder(owner_labels=args.owner_labels)]
    if args.counters:
        counters = load_counters(args.counters)
        if counters.unknown:
            _LOG.warning("%s: not exposed, for want of a metric: %s", args.counters, ", ".join(counters.unknown))
        builders.append(DcgmFamilies(counters, owner_labels=args.owner_labels))
    elif args.dcgm_names:
        builders.append(DcgmFamilies(default_counters(), owner_labels=args.owner_labels))
    return builders


def _backend(args: argparse.Namespace) -> tuple[Backend, Callable[[], Collection[str]]]:
    """What reads the cards, and what knows which cards the kernel driver is bound to."""
    from exporter.nvml import NvmlBackend  # noqa: PLC0415  bindings take a tenth of a second to import

    if args.fake:
        from exporter.fake_nvml import FakeNvml  # noqa: PLC0415
        from exporter.fleet_file import load_fleet  # noqa: PLC0415

        fleet = load_fleet(args.fake)
        return NvmlBackend(FakeNvml(fleet)), lambda: {card.pci_bus_id for card in fleet.cards}
    if args.backend != "nvml":
        from exporter.dcgm import DcgmBackend  # noqa: PLC0415

        try:
            found = DcgmBackend.connect(args.dcgm_address, interval=args.interval, follow_pcie=args.follow_pcie)
        except BackendError as error:
            # Somebody who gave an address, or has a host engine, wants to know why it isn't used.
            if args.backend == "dcgm" or args.dcgm_address:
                raise
            silent = isinstance(error.__cause__, ConnectionRefusedError)
            _LOG.log(logging.INFO if silent else logging.WARNING, "%s: reading NVML", error)
        else:
            return found, cards_of_the_driver
    return NvmlBackend(follow_pcie=args.follow_pcie), cards_of_the_driver


def _adapters(args: argparse.Namespace, node: str) -> list[Adapter]:
    """The owner adapters in order of trust."""
    wanted = [name.strip() for name in args.owners.split(",") if name.strip()]
    for name in wanted:
        if name not in (*OWNERS, "auto", "none"):
            raise UsageError(f"--owners: {name!r} is no source; use {', '.join(OWNERS)}, auto or none")
        if wanted.count(name) > 1 or (name in ("auto", "none") and len(wanted) > 1):
            raise UsageError(f"--owners {args.owners}: {name} stands {'alone' if name not in OWNERS else 'once'}")
    if wanted == ["auto"] or not wanted:
        wanted = [name for name in OWNERS if _is_there(name, args)]
    if args.static_owners is not None and "static" not in wanted:
        raise UsageError(f"--static-owners {args.static_owners}: --owners {args.owners} leaves `static` out; add it")
    if wanted == ["none"]:
        return []
    makers = {"kubernetes": _kubernetes, "slurm": _slurm, "static": _static, "processes": _processes}
    return [makers[name](args, node) for name in wanted]


def _is_there(name: str, args: argparse.Namespace) -> bool:
    """Whether this node looks like it has a source."""
    if name == "kubernetes":
        return bool(args.pod_resources_socket.exists())
    if name == "slurm":
        return bool(args.job_map_dir or args.gpustat_dir.exists() or slurm_cgroups.folders(args.cgroup_root))
    if name == "static":
        return args.static_owners is not None
    return not args.fake


def _kubernetes(args: argparse.Namespace, node: str) -> Adapter:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (SERVICE_ACCOUNT / "token").exists():
        return KubernetesAdapter(args.pod_resources_socket)
    host = f"[{host}]" if ":" in host else host
    wanted = [label.strip() for label in args.pod_labels.split(",") if label.strip()]
    api = KubernetesApi(f"https://{host}:{port}", node, pod_labels=wanted)
    return KubernetesAdapter(args.pod_resources_socket, pods=api.pods, dra_devices=api.dra_devices)


def _slurm(args: argparse.Namespace, node: str) -> Adapter:
    return SlurmAdapter(
        gpustat=args.gpustat_dir, job_map=args.job_map_dir, cgroup_root=args.cgroup_root, jobs=SlurmJobs(node)
    )


def _static(args: argparse.Namespace, node: str) -> Adapter:
    del node
    if args.static_owners is None:
        raise UsageError("--owners static: give the file with --static-owners FILE")
    load_owners(args.static_owners)
    return StaticAdapter(args.static_owners)


def _processes(args: argparse.Namespace, node: str) -> Adapter:
    del node
    return ProcessAdapter(args.proc)


def main(argv: list[str] | None = None) -> int:
    """``python -m exporter.main``: the exporter alone, without the front door."""
    parser = argparse.ArgumentParser(prog="gpuledger exporter")
    add_arguments(parser)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        return run(args)
    except (UsageError, WorkError) as error:
        print(f"gpuledger exporter: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
