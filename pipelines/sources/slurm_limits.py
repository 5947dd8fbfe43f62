"""Slurm's reservations, partitions, QOS and accounts → bookings, limits and the account tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from exporter import hostlist
from pipelines.sources.slurm_values import members_of, moment, text_of
from pipelines.sources.tally import Tally
from pipelines.sources.tres import gpus_by_type

Row = dict[str, object]

_OPEN: Final = datetime(2099, 1, 1, tzinfo=UTC)  # a reservation of 365 days repeated, or UNLIMITED
# Column of `sacctmgr -P` → what the limit in it is of.
_QOS_COLUMNS: Final = {"GrpTRES": "slurm_qos", "MaxTRESPA": "slurm_qos_per_account", "MaxTRESPU": "slurm_qos_per_user"}


def booking_rows(
    reservations: Iterable[Mapping[str, Any]], *, cluster: str, observed: datetime | None, tally: Tally
) -> list[Row]:
    """Rows of ``facts.BOOKING``, one per reservation and GPU model."""
    rows: list[Row] = []
    for reservation in reservations:
        begins, ends = _time(reservation.get("start_time")), _time(reservation.get("end_time"))
        name = text_of(reservation.get("name"))
        if name is None or begins is None or (ends is not None and ends <= begins):
            tally.add("reservation without a name or its times")
            continue
        try:
            nodes = hostlist.expand(text_of(reservation.get("node_list")) or "")
            gpus: dict[str | None, int | None] = {**gpus_by_type(text_of(reservation.get("tres")) or "")}
        except ValueError:
            tally.add("reservation whose nodes or TRES can't be read")
            continue
        flags = {flag.upper() for flag in (text_of(reservation.get("flags")) or "").split(",")}
        rows += [
            {
                "cluster": cluster,
                "booking": name,
                "accounts": _names(reservation.get("accounts")),
                "users": _names(reservation.get("users")),
                "partition": text_of(reservation.get("partition")),
                "nodes": nodes,
                "model": model,
                "gpus": count,
                "from": begins,
                "to": ends or _OPEN,
                "maintenance": bool(flags & {"MAINT", "MAINTENANCE"}),
                "observed": observed,
            }
            for model, count in (gpus or {None: None}).items()
        ]
    return rows


def partition_rows(
    partitions: Iterable[Mapping[str, Any]], *, cluster: str, observed: datetime | None, tally: Tally
) -> list[Row]:
    """Rows of ``facts.PARTITION``."""
    rows: list[Row] = []
    for partition in partitions:
        name = text_of(partition.get("name"))
        if name is None:
            continue
        nodes, tres, qos = partition.get("nodes"), partition.get("tres"), partition.get("qos")
        listed = members_of(nodes).get("configured") if isinstance(nodes, dict) else nodes
        configured = members_of(tres).get("configured") if isinstance(tres, dict) else tres
        weights = members_of(tres).get("billing_weights") if isinstance(tres, dict) else None
        try:
            hosts = hostlist.expand(text_of(listed) or "")
        except ValueError:
            tally.add("partition whose nodes are no hostlist")
            continue
        has_gpus = "gres/gpu" in (text_of(configured) or "")
        rows.append(
            {
                "cluster": cluster,
                "partition": name,
                "nodes": hosts,
                "gpus": sum(gpus_by_type(str(text_of(configured))).values()) if has_gpus else None,
                "billing_weights": text_of(weights) or text_of(partition.get("billing_weights")),
                "qos": text_of(members_of(qos).get("assigned") if isinstance(qos, dict) else qos),
                "observed": observed,
            }
        )
    return rows


def qos_rows(table: Iterable[Mapping[str, str]], *, cluster: str, observed: datetime | None) -> list[Row]:
    """Rows of ``facts.LIMIT`` from the columns of `sacctmgr -P show qos`."""
    return [
        row
        for qos in table
        for column, kind in _QOS_COLUMNS.items()
        for row in _limits(qos.get(column, ""), cluster, kind, qos.get("Name", ""), None, observed)
    ]


def association_rows(
    table: Iterable[Mapping[str, str]], *, cluster: str, observed: datetime | None
) -> tuple[list[Row], list[Row]]:
    """Rows of ``facts.ACCOUNT`` and ``facts.LIMIT`` from the columns of `sacctmgr -P show assoc`."""
    accounts: dict[tuple[str, str], Row] = {}
    limits: list[Row] = []
    for entry in table:
        account, user = entry.get("Account", ""), entry.get("User", "")
        of = entry.get("Cluster") or cluster
        if not account or of != cluster:
            continue
        if not user and entry.keys() & {"ParentName", "Par Name"}:
            parent = entry.get("ParentName") or entry.get("Par Name") or None
            accounts[of, account] = {"cluster": of, "account": account, "parent": parent, "observed": observed}
        kind, name, within = ("slurm_user", user, account) if user else ("slurm_account", account, None)
        limits += _limits(entry.get("GrpTRES", ""), of, kind, name, within, observed)
    return list(accounts.values()), limits


def qos_of_json(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """QOS of `sacctmgr --json` or slurmrestd as the columns of its text."""
    rows = []
    for entry in entries:
        tres = members_of(members_of(members_of(entry.get("limits")).get("max")).get("tres"))
        per = members_of(tres.get("per"))
        rows.append(
            {
                "Name": text_of(entry.get("name")) or "",
                "GrpTRES": _tres_text(tres.get("total")),
                "MaxTRESPA": _tres_text(per.get("account")),
                "MaxTRESPU": _tres_text(per.get("user")),
            }
        )
    return rows


def associations_of_json(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Associations of `sacctmgr --json` or slurmrestd as the columns of its text."""
    return [
        {
            "Cluster": text_of(entry.get("cluster")) or "",
            "Account": text_of(entry.get("account")) or "",
            "User": text_of(entry.get("user")) or "",
            **({"ParentName": text_of(entry["parent_account"]) or ""} if "parent_account" in entry else {}),
            "GrpTRES": _tres_text(members_of(members_of(entry.get("max")).get("tres")).get("total")),
        }
        for entry in entries
    ]


def _limits(tres: str, cluster: str, kind: str, name: str, within: str | None, observed: datetime | None) -> list[Row]:
    """One row per GPU model that a limit names; the plain entry limits all models together."""
    row: Row = {"cluster": cluster, "kind": kind, "name": name, "within": within, "used": None, "observed": observed}
    entries = [entry for entry in tres.split(",") if entry.startswith("gres/gpu")]
    rows: list[Row] = []
    for entry in entries:
        resource, _, count = entry.partition("=")
        model = resource.partition(":")[2] or None
        if count.isdecimal() and resource.partition(":")[0] == "gres/gpu":
            rows.append({**row, "model": model, "gpus": float(count)})
    return rows if name else []


def _tres_text(entries: Any) -> str:
    listed = entries if isinstance(entries, list) else []
    parts = []
    for entry in map(members_of, listed):
        name = text_of(entry.get("name"))
        parts.append(f"{entry.get('type')}{'/' + name if name else ''}={entry.get('count')}")
    return ",".join(parts)


def _names(value: Any) -> list[str]:
    text = text_of(value) or ""
    return [name for name in text.split(",") if name and name != "(null)"]


def _time(value: Any) -> datetime | None:
    seconds = moment(value)
    return None if seconds is None or not seconds.isdecimal() else datetime.fromtimestamp(int(seconds), UTC)
