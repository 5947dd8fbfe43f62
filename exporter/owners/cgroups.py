"""What a control group's path says about who a process works for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_HEX64: Final = r"[0-9a-f]{64}"
_POD: Final = re.compile(
    r"(?:^|[/-])pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}|\w+)"
    r"(?=$|/|\.slice)"
)
_SLURM: Final = re.compile(
    r"(?:^|/)(?:slurm(?:_[^/]+)?|(?:[^/]+_)?slurmstepd\.scope)(?:/uid_(\d+))?/job_(\w+)(?:/step_([^/]+))?"
)
_TORQUE: Final = re.compile(r"(?:^|/)torque/([^/]+)")
_CRI_IN_SERVICE: Final = re.compile(rf"/kubepods[^/]*?-pod([0-9a-f_-]+)\.slice:cri-containerd:({_HEX64})")
_CONTAINER: Final = re.compile(
    r"(?:^|/)(?P<runtime>docker|cri-containerd|crio|cri-o|containerd|libpod(?:-payload)?|crio-conmon|libpod-conmon)"
    r"[-/](?P<id>[0-9a-f]{12,64})(?:\.(?:scope|mount))?(?=$|/)"
)
_BARE: Final = re.compile(rf"/(?P<id>{_HEX64})(?=$|/)")
_LXC: Final = re.compile(r"(?:^|/)(?:lxc\.(?:payload|monitor)\.|lxc/)([^/]+)")
_USER: Final = re.compile(r"(?:^|/)user\.slice/user-(\d+)\.slice")
_SERVICE: Final = re.compile(r"(?:^|/)system\.slice/(?:.*/)?([^/]+\.(?:service|scope|slice))(?:/[^/.]+)*$")

_RUNTIMES: Final = {
    "cri-containerd": "containerd",
    "cri-o": "crio",
    "crio-conmon": "crio",
    "libpod": "podman",
    "libpod-payload": "podman",
    "libpod-conmon": "podman",
}


@dataclass(frozen=True, slots=True)
class Membership:
    """Whom a control group belongs to.

    Args:
        kind: "kubernetes", "slurm", "torque", "container", "lxc", "user", "service" or "other".
        id: pod UID, job id, container id, LXC name, user id or unit name.
        container: container id inside a pod.
        runtime: "docker", "containerd", "crio", "podman" where the path says.
    """

    kind: str
    id: str = ""
    container: str = ""
    runtime: str = ""
    uid: str = ""
    step: str = ""


def classify(path: str) -> Membership:
    """Whom a control group's path names: the innermost scheduler wins over the container that it runs in."""
    if match := _SLURM.search(path):
        return Membership("slurm", match[2], uid=match[1] or "", step=match[3] or "")
    if match := _CRI_IN_SERVICE.search(path):
        return Membership("kubernetes", _uid(match[1]), match[2], "containerd")
    container, runtime = _container(path)
    if "kubepods" in path and (pods := _POD.findall(path)):
        inside = path[path.rindex("pod" + pods[-1]) :]
        container, runtime = _container(inside)
        return Membership("kubernetes", _uid(pods[-1]), container, runtime)
    if match := _TORQUE.search(path):
        return Membership("torque", match[1].split(".")[0])
    if container:
        return Membership("container", container, runtime=runtime)
    return _host(path)


def _container(path: str) -> tuple[str, str]:
    """The innermost container id in a path, and its runtime where it is named."""
    named = list(_CONTAINER.finditer(path))
    if named:
        runtime = named[-1]["runtime"]
        return named[-1]["id"], _RUNTIMES.get(runtime, runtime)
    bare = _BARE.search(path)
    return (bare["id"], "") if bare else ("", "")


def _host(path: str) -> Membership:
    if match := _LXC.search(path):
        return Membership("lxc", match[1])
    if match := _USER.search(path):
        return Membership("user", match[1], uid=match[1])
    if match := _SERVICE.search(path):
        return Membership("service", match[1])
    return Membership("other")


def _uid(text: str) -> str:
    """A pod UID as the API server writes it: systemd's slices have _ for -."""
    return text.replace("_", "-")


def parse_proc_cgroup(text: str) -> str:
    """The path in /proc/PID/cgroup that tells most: v2's only one, else v1's devices, memory or name=systemd."""
    paths = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    known = [paths[name] for name in ("", "devices", "memory", "pids", "name=systemd") if name in paths]
    telling = [path for path in known if classify(path).kind in {"slurm", "kubernetes", "container", "torque"}]
    return (telling or known or ["/"])[0]
