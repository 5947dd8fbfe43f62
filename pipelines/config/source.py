"""One source of the configuration: what it is, where it lies, how to sign in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, model_validator

from pipelines.config.scalars import Instant, Names, PositiveCount, Text, Zone, fault
from pipelines.config.section import Section
from pipelines.slurm_billing import BillingRule, mode_of, weights_of

Kind = Literal[
    "prometheus",
    "metrics",
    "samples",
    "sacct",
    "slurm_json",
    "slurm_state",
    "slurmrestd",
    "kube_state",
    "allocations",
    "inventory",
    "calendar",
    "acceptance",
]
_SHARED_KEYS: Final = frozenset({"cluster"})
_OF_ANY_CLUSTER: Final = frozenset({"allocations", "inventory", "calendar", "acceptance"})
_SIGN_IN: Final = frozenset(
    {
        *("headers_env", "bearer_token_env", "bearer_token_file", "username", "password_env", "password_file"),
        *("ca_file", "cert_file", "key_file"),
    }
)
_BILLING: Final = frozenset({"billing", "billing_weights", "priority_flags"})
_KEYS_OF: Final[Mapping[Kind, frozenset[str]]] = {
    "prometheus": _SIGN_IN,
    "metrics": frozenset({"at"}),
    "samples": frozenset(),
    "sacct": frozenset({"fields", "timezone", "shards_per_gpu"}) | _BILLING,
    "slurm_json": frozenset({"shards_per_gpu"}) | _BILLING,
    "slurm_state": frozenset({"at", "devices", "fields", "timezone", "shards_per_gpu"}),
    "slurmrestd": frozenset({"devices", "shards_per_gpu", "since"})
    | _BILLING
    | _SIGN_IN - {"password_env", "password_file"},
    "kube_state": frozenset({"at"}) | _SIGN_IN,
    "allocations": frozenset({"timezone"}),
    "inventory": frozenset({"timezone"}),
    "calendar": frozenset({"timezone"}),
    "acceptance": frozenset({"at", "node"}),
}


class Source(Section):
    """Where measurements or records come from; one of the first twelve keys says what it is."""

    prometheus: Text | None = None
    """URL of a Prometheus, or of anything that speaks its HTTP API."""
    metrics: Text | None = None
    """Exposition text: `.prom` (timestamps in ms) or `.om` (OpenMetrics, in s), also `.gz`."""
    samples: Text | None = None
    """Parquet of the wide sample lake, as `gpuledger simulate` and recordings write it."""
    sacct: Text | None = None
    """Output of `sacct -P`, with its header line unless `fields` names the columns."""
    slurm_json: Text | None = None
    """Answer about jobs in JSON: of `sacct --json`, `squeue --json` or slurmrestd, also `.gz`."""
    slurm_state: Text | None = None
    """Answers of `scontrol show …`, `sacctmgr -P show …` or slurmrestd: nodes, reservations, limits, running jobs."""
    slurmrestd: Text | None = None
    """URL of a slurmrestd: accounting, running jobs, nodes, reservations, limits; `bearer_token_file` holds its JWT."""
    kube_state: Text | None = None
    """kube-state-metrics: URL of the Prometheus that has it, a file of exposition text, or `kubectl get -o json`."""
    allocations: Text | None = None
    """CSV: start,end,gpus,device,model,tenant,workload,class."""
    inventory: Text | None = None
    """CSV: node,device,model,gpus,slots,owner,from,to."""
    calendar: Text | None = None
    """CSV of maintenance and repairs: node,device,state,reason,from,to."""
    acceptance: Text | None = None
    """Results of acceptance tests: JSON of `dcgmi diag -j`, or the output of an NCCL bandwidth test."""
    cluster: Text | None = None
    """Cluster of what it yields; "default" where left out; any, for allocations, inventory, calendar and acceptance."""
    at: Instant | None = None
    """metrics, slurm_state, kube_state, acceptance: the time of what has none of its own."""
    fields: Names | None = None
    """sacct, slurm_state: columns of a file without a header line."""
    devices: Text | None = None
    """slurm_state, slurmrestd: which card a minor number is: text of `gpuledger exporter`, or CSV node,minor,device."""
    shards_per_gpu: PositiveCount | None = None
    """sacct, slurm_json, slurm_state, slurmrestd: how many shards (gres/shard) a GPU has."""
    billing: Literal["recorded", "weights"] | None = None
    """sacct, slurm_json, slurmrestd: report billing-hours as Slurm recorded them, or by `billing_weights`."""
    billing_weights: Mapping[str, Text] | None = None
    """With `billing: weights`: partition (a glob) → its TRESBillingWeights; one that none matches bills its cores."""
    priority_flags: Text | None = None
    """With `billing: weights`: PriorityFlags of slurm.conf, of which MAX_TRES and MAX_TRES_GRES count."""
    since: Instant | None = None
    """slurmrestd: from when on the first pass asks for accounting; 90 days back where left out."""
    node: Text | None = None
    """acceptance: host name of the node that the tests ran on, where the file doesn't say."""
    timezone: Zone | None = None
    """Zone of the local times in sacct, slurm_state and CSV files, where it isn't this file's."""
    headers_env: Mapping[str, Text] = Field(default_factory=dict)
    """prometheus, slurmrestd, kube_state: HTTP header → environment variable that holds its value."""
    bearer_token_env: Text | None = None
    """prometheus, slurmrestd: environment variable that holds the bearer token."""
    bearer_token_file: Text | None = None
    """prometheus, slurmrestd: file that holds the bearer token, read at each pass."""
    username: Text | None = None
    """prometheus: user of basic authentication; slurmrestd: whose the token is, where it doesn't say."""
    password_env: Text | None = None
    """prometheus: environment variable that holds the password."""
    password_file: Text | None = None
    """prometheus: file that holds the password."""
    ca_file: Text | None = None
    """prometheus: certificates that its server is checked against."""
    cert_file: Text | None = None
    """prometheus: client certificate."""
    key_file: Text | None = None
    """prometheus: key of the client certificate."""

    _folder: Path = PrivateAttr(default=Path())

    def model_post_init(self, context: Any, /) -> None:
        """Remember the folder that paths are relative to."""
        if context:
            self._folder = context["path"].absolute().parent

    @model_validator(mode="before")
    @classmethod
    def _cluster_by_default(cls, values: Any) -> Any:
        if isinstance(values, dict) and "cluster" not in values and not _OF_ANY_CLUSTER & values.keys():
            return {**values, "cluster": "default"}
        return values

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        kinds = [kind for kind in _KEYS_OF if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            raise fault(f"expected exactly one of {', '.join(_KEYS_OF)}, found {found}", "make each source one entry")
        stray = sorted(self.model_fields_set - _KEYS_OF[kinds[0]] - _SHARED_KEYS - {kinds[0]})
        if stray:
            raise fault(f"means nothing for a {kinds[0]} source", "take it out", key=stray[0])
        self._check_billing()
        if self.live:
            self._check_address(self.written)
            self._check_sign_in()
        return self

    @property
    def kind(self) -> Kind:
        """Which of the twelve it is."""
        return next(kind for kind in _KEYS_OF if getattr(self, kind) is not None)

    @property
    def written(self) -> str:
        """The URL or path as the file has it: a name for messages that is the same in every folder."""
        return str(getattr(self, self.kind))

    @property
    def live(self) -> bool:
        """Whether it is a server that is asked again and again, rather than a file."""
        return self.kind in ("prometheus", "slurmrestd") or (self.kind == "kube_state" and "://" in self.written)

    @property
    def location(self) -> str:
        """The URL, or the absolute path."""
        return self.written if self.live else str(self.path)

    @property
    def path(self) -> Path:
        """The absolute path of a file source."""
        return self.resolve(self.written)

    def resolve(self, name: str) -> Path:
        """A path of this source, relative to the configuration's folder."""
        return self._folder.joinpath(name).absolute()

    @property
    def billing_rule(self) -> BillingRule | None:
        """How the billing of a job is told; None: nobody asked for it."""
        if self.billing is None:
            return None
        if self.billing_weights is None:
            return BillingRule()
        weights = tuple((glob, weights_of(text)) for glob, text in self.billing_weights.items())
        return BillingRule(weights, mode_of(self.priority_flags or ""))

    def _check_billing(self) -> None:
        for key in ("billing_weights", "priority_flags"):
            if getattr(self, key) is not None and self.billing != "weights":
                raise fault("means nothing without `billing: weights`", "add that, or take it out", key=key)
        if self.billing == "weights" and self.billing_weights is None:
            raise fault("needs `billing_weights`", 'add them: {"*": "CPU=1.0,GRES/gpu=12"}', key="billing")
        for glob, text in (self.billing_weights or {}).items():
            try:
                weights_of(text)
            except ValueError as error:
                mend = "write it as in slurm.conf: CPU=1.0,Mem=0.25G,GRES/gpu=12"
                raise fault(f"{glob}: {text!r} has {error}", mend, key="billing_weights") from None

    def _check_address(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            good = parts.scheme in {"http", "https"} and bool(parts.hostname)
            secret = parts.username is not None
            _ = parts.port
        except ValueError:
            good, secret = False, False
        if secret:
            raise fault("the URL holds a user", "use username with password_env or password_file", key=self.kind)
        if not good:
            raise fault(f"{url!r} is no URL", "write it as http://HOST:9090", key=self.kind)

    def _check_sign_in(self) -> None:
        beside = [("bearer_token_env", "bearer_token_file"), ("password_env", "password_file")]
        if self.kind != "slurmrestd":  # a token of Slurm's is somebody's
            beside += [("bearer_token_env", "username"), ("bearer_token_file", "username")]
        for one, other in beside:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise fault(f"stands beside {one}, and only one can be used", "keep one of them", key=other)
        has_password = self.password_env is not None or self.password_file is not None
        if has_password and self.username is None:
            raise fault("a password without `username`", "add username", key="username")
        if self.username is not None and not has_password and self.kind != "slurmrestd":
            raise fault("a user without a password", "add password_env or password_file", key="username")
        if (self.cert_file is None) != (self.key_file is None):
            raise fault("a client certificate needs both cert_file and key_file", "add the other", key="cert_file")
