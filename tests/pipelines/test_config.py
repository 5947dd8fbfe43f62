from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from exporter.errors import ConfigError
from pipelines.config import Config, Source, load, reading, reservation_rate
from pipelines.config.faults import models_in
from pipelines.config.reference import EXAMPLE, render
from pipelines.periods import Period

Load = Callable[[str], Config]


@pytest.fixture
def loaded(tmp_path: Path) -> Load:
    def load_text(text: str) -> Config:
        path = tmp_path / "gpuledger.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return load_text


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


TENANT = "currency: USD\ntenants: [{id: vision}]\n"
RATE = "- {model: '*', on_demand: '1'"
RESERVED = "reservations:\n- {id: r1, tenant: vision, gpus: 8, from: 2026-01-01, to: 2026-02-01"

BAD = {
    # YAML itself
    "empty": ("", ": the file is empty; write at least `currency: USD`"),
    "only a comment": ("# later\n", ": the file is empty; "),
    "a list": ("- a\n", ":1: expected a mapping at the top; write `key: value` lines"),
    "text": ("hello\n", ":1: expected a mapping at the top; "),
    "unclosed quote": ("currency: USD\ntimezone: 'UTC\n", ":3: not YAML: found unexpected end of stream; look there, "),
    "tab": ("\tcurrency: USD\n", ":1: not YAML: found character '\\t' that cannot start any token; look there, "),
    "control character": ("currency: USD\nledger: \x01\n", ":2: not YAML: special characters are not allowed; "),
    "two documents": ("currency: USD\n---\n{}\n", ":2: not YAML: found another document; keep one document"),
    "unknown alias": ("currency: *x\n", ":1: not YAML: found undefined alias 'x'; "),
    "alias of itself": ("rates: &x [*x]\n", ":1: rates[0]: an alias holds itself; write the value out"),
    "aliases of aliases": (
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{n}: &{n} [{', '.join([f'*{m}'] * 10)}]\n" for m, n in zip("abcdefg", "bcdefgh", strict=True)),
        "aliases repeat more than 10,000 values; write the values out",
    ),
    "tag": ("currency: !!python/name:os.system x\n", ":1: currency: tag 'python/name:os.system' is not read; "),
    "merge key": ("currency: USD\n<<: {}\n", ":2: <<: merge keys are not read; write the keys out"),
    "list as key": ("? [a]\n: b\n", ":1: top level: a key is a list or a mapping; write text as key"),
    "deep": (f"rates: {'[' * 4000}{']' * 4000}\n", ": nested too deeply; flatten the lists and mappings"),
    "key twice": ("currency: USD\ncurrency: EUR\n", ":2: currency: stands twice, first on line 1; keep one of them"),
    "nested key twice": (
        "currency: USD\ntenants:\n- id: a\n  name: A\n  id: b\n",
        ":5: tenants[0].id: stands twice, first on line 3; keep one of them",
    ),
    "tenant of what is nobody's": (
        "currency: USD\ntenants:\n- {id: unattributed}\n",
        ":3: tenants[0].id: unattributed is what no tenant's selector matches; give the tenant another id",
    ),
    "sixty digits": (
        f"currency: USD\nrates:\n- {{model: '*', on_demand: '{'9' * 60}'}}\n",
        ":3: rates[0].on_demand: an amount of 60 digits; write at most 15 before the point and 18 after it",
    ),
    # Keys
    "misspelt key": ("currency: USD\ntenant: []\n", ":2: tenant: unknown key; did you mean tenants?"),
    "misspelt nested key": (
        "currency: USD\ntenants:\n- id: a\n  mach: []\n",
        ":4: tenants[0].mach: unknown key; did you mean match?",
    ),
    "key of Python": (
        "currency: USD\nwindow: {from_: 2026-01-01, to: 2026-01-02}\n",
        ":2: window.from_: unknown key; did you mean from?",
    ),
    "unlike any key": ("currency: USD\nsla: {zzz: 1}\n", ":2: sla.zzz: unknown key; known here: credit_downtime"),
    "key in the wrong selector": (
        "currency: USD\nspot:\n- {slurm_qoss: a}\n",
        ":3: spot[0].slurm_qoss: unknown key; did you mean slurm_qos?",
    ),
    "misspelt required key": ("currancy: USD\n", ":1: currancy: unknown key; did you mean currency?"),
    "no currency": ("timezone: UTC\n", ":1: currency: missing; add it, such as currency: USD"),
    "no price": (
        "currency: USD\nrates:\n- {model: '*'}\n",
        ":3: rates[0].on_demand: missing; add it, such as on_demand: ",
    ),
    "several": (
        "timezone: Mars\nidle: {policy: none}\ncurrency: usd\n",
        ":1: timezone: 'Mars' is no time zone; write an IANA name such as America/New_York or UTC (and 2 more)",
    ),
    # Kinds of values
    "mapping for a list": (
        "currency: USD\ntenants:\n- id: a\n  match: {namespace: x}\n",
        ':4: tenants[0].match: expected a list; put "- " before each entry',
    ),
    "text for a list": ("currency: USD\nsources: a.prom\n", ":2: sources: expected a list; "),
    "text for a mapping": ("currency: USD\nidle: even\n", ":2: idle: expected a mapping; write `key: value` lines"),
    "nothing in a list": ("currency: USD\nrates:\n-\n", ":3: rates[0]: expected a mapping; "),
    "list for tags": ("currency: USD\ntenants: [{id: a, tags: [x]}]\n", ":2: tenants[0].tags: expected a mapping; "),
    "truth for text": (
        "currency: USD\ntenants: [{id: a, name: true}]\n",
        ":2: tenants[0].name: expected text; write it in quotes",
    ),
    "text for truth": (
        "currency: USD\nsla: {credit_downtime: perhaps}\n",
        ":2: sla.credit_downtime: expected true or false; ",
    ),
    "no choice": (
        "currency: USD\nidle: {policy: Platform}\n",
        ":2: idle.policy: 'Platform' is no choice here; did you mean platform?",
    ),
    "nothing like a choice": (
        "currency: USD\nmig: {weight: gpu}\n",
        ":2: mig.weight: 'gpu' is no choice here; write one of: max, compute, memory",
    ),
    "currency in lower case": (
        "currency: usd\n",
        ":1: currency: 'usd' is no ISO 4217 currency code; did you mean USD?",
    ),
    "time zone": (
        "currency: USD\ntimezone: America/NewYork\n",
        ":2: timezone: 'America/NewYork' is no time zone; did you mean America/New_York?",
    ),
    "time zone as path": (
        "currency: USD\ntimezone: ../../etc/passwd\n",
        ":2: timezone: '../../etc/passwd' is no time zone; ",
    ),
    # Money
    "float": (
        "currency: USD\nrates:\n- {model: '*', on_demand: 2.50}\n",
        ':3: rates[0].on_demand: 2.50 is not quoted, and an unquoted number may be rounded; write "2.50"',
    ),
    "integer": (
        "currency: USD\nrates:\n- {model: '*', on_demand: 2}\n",
        ':3: rates[0].on_demand: 2 is not quoted, and an unquoted number may be rounded; write "2"',
    ),
    "negative": (
        "currency: USD\nrates:\n- {model: '*', on_demand: '-2'}\n",
        ":3: rates[0].on_demand: '-2' is negative; ",
    ),
    "not a number": (
        "currency: USD\nrates:\n- {model: '*', on_demand: 'NaN'}\n",
        ":3: rates[0].on_demand: 'NaN' is no amount; ",
    ),
    "infinite": ("currency: USD\nrates:\n- {model: '*', on_demand: 'Infinity'}\n", "'Infinity' is no amount; "),
    "exponent": (
        "currency: USD\nrates:\n- {model: '*', on_demand: '1e3'}\n",
        "'1e3' is no amount; write a quoted decimal such as \"2.50\"",
    ),
    "thousands": ("currency: USD\nrates:\n- {model: '*', on_demand: '1,000.00'}\n", "'1,000.00' is no amount; "),
    "unquoted budget": (
        "currency: USD\ntenants: [{id: a, budget: {monthly: 10}}]\n",
        ":2: tenants[0].budget.monthly: 10 is not quoted, ",
    ),
    "budget of nothing": (
        "currency: USD\ntenants: [{id: a, budget: {}}]\n",
        ":2: tenants[0].budget: no amount; write monthly: ",
    ),
    "PUE below 1": ("currency: USD\nenergy: {pue: '0.9'}\n", ":2: energy.pue: a PUE of 0.9 is below 1; "),
    "energy without price": (
        "currency: USD\nenergy: {charge: true}\n",
        ":2: energy.charge: nothing to charge by; add price_per_kwh: ",
    ),
    # Times
    "interval without unit": (
        "currency: USD\nscrape_interval: 60\n",
        ":2: scrape_interval: duration '60': expected a number with its unit; write 60s for seconds",
    ),
    "interval of nothing": ("currency: USD\nscrape_interval: 0s\n", ":2: scrape_interval: an interval of nothing; "),
    "no such month": (
        f"currency: USD\nrates:\n{RATE}, from: 2026-13-01}}\n",
        ":3: rates[0].from: time '2026-13-01': expected ISO 8601; write it as ",
    ),
    "backwards rate": (
        f"currency: USD\nrates:\n{RATE}, from: 2026-02-01, to: 2026-02-01}}\n",
        ":3: rates[0].to: `to` is not after `from`; ",
    ),
    "backwards selector": (
        "currency: USD\nspot: [{pod: a, from: 2026-02-01, to: 2026-01-01}]\n",
        ":2: spot[0].to: `to` is not after `from`; ",
    ),
    "backwards window": (
        "currency: USD\nwindow: {from: 2026-02-01, to: 2026-01-01}\n",
        ":2: window.to: `to` is not after `from`; ",
    ),
    "half a window": ("currency: USD\nwindow: {from: 2026-02-01}\n", ":2: window.to: missing; add it"),
    "no such period": (
        "currency: USD\nperiod: 2026-13\n",
        ":2: period: period '2026-13': expected a month, a day or a year; ",
    ),
    "period and window": (
        "currency: USD\nperiod: 2026\nwindow: {from: 2026-02-01, to: 2026-03-01}\n",
        ":2: period: stands beside `window`, and only one can be reported on; keep one of them",
    ),
    "no such day": (
        "currency: USD\ntenants: [{id: a, retired: soon}]\n",
        ":2: tenants[0].retired: 'soon' is no day; write it as 2026-11-03",
    ),
    # Tenants and selectors
    "tenant id as path": (
        "currency: USD\ntenants:\n- id: ../x\n",
        ":3: tenants[0].id: '../x' is no tenant id; use 1 to 63 of a-z, 0-9 and -, the first of them no hyphen",
    ),
    "long tenant id": (f"currency: USD\ntenants: [{{id: {'a' * 64}}}]\n", "aaa' is no tenant id; "),
    "tenant id with a line": ('currency: USD\ntenants: [{id: "a\\n"}]\n', " is no tenant id; "),
    "tenant twice": (
        "currency: USD\ntenants:\n- id: a\n- id: a\n",
        ":4: tenants[1].id: tenant a stands twice; give each its own id",
    ),
    "unknown parent": (
        "currency: USD\ntenants: [{id: a, parent: b}]\n",
        ":2: tenants[0].parent: no tenant 'b'; write one of a, or add it",
    ),
    "own parent": ("currency: USD\ntenants: [{id: a, parent: a}]\n", ":2: tenants[0].parent: a is above itself; "),
    "circle": (
        "currency: USD\ntenants:\n- {id: a, parent: b}\n- {id: b, parent: a}\n- {id: c, parent: a}\n",
        ":3: tenants[0].parent: a is above itself; take one parent of the circle out (and 1 more)",
    ),
    "empty selector": ("currency: USD\nspot: [{}]\n", ":2: spot[0]: no key to match by; write one of cluster, node, "),
    "only dates": ("currency: USD\nspot: [{from: 2026-01-01}]\n", ":2: spot[0]: no key to match by; "),
    "null glob": (
        "currency: USD\nspot: [{pod: , node: a}]\n",
        ":2: spot[0].pod: an empty value; write a glob, or take the key out",
    ),
    "empty glob": ("currency: USD\nspot: [{pod: ''}]\n", ":2: spot[0].pod: an empty value; "),
    "half a GPU": (
        "currency: USD\ntenants: [{id: a, quota: {gpus: 0.5}}]\n",
        ":2: tenants[0].quota.gpus: '0.5' is no count; ",
    ),
    # Rates and reservations
    "overlap": (
        (
            "currency: USD\nrates:\n"
            "- {model: 'h100', on_demand: '1', to: 2026-02-01}\n"
            "- {model: 'a100', on_demand: '1'}\n"
            "- {model: 'H100', on_demand: '1', from: 2026-01-31}\n"
        ),
        ":5: rates[2]: overlaps rates[0] in time for model 'H100'; end one with `to` where the other starts",
    ),
    "overlap by a long one": (
        (
            f"currency: USD\nrates:\n{RATE}, from: 2026-01-01, to: 2027-01-01}}\n{RATE}, to: 2026-01-01}}\n"
            f"{RATE}, from: 2026-02-01, to: 2026-03-01}}\n"
        ),
        ":5: rates[2]: overlaps rates[0] in time for model '*'; ",
    ),
    "unknown tenant": (
        f"{TENANT}{RESERVED.replace('tenant: vision', 'tenant: visoin')}, rate: '1'}}\n",
        ":4: reservations[0].tenant: reservation r1 is of no known tenant: 'visoin'; write one of vision, or add ",
    ),
    "reservation without rate": (
        f"{TENANT}rates:\n- {{model: 'H100', on_demand: '1'}}\n{RESERVED}}}\n",
        (
            ":6: reservations[0]: reservation r1 has no rate for model '*' from 2026-01-01T00:00:00+00:00; "
            "give it a `rate` of its own, or add a matching entry to rates"
        ),
    ),
    "reservation with a hole in its rates": (
        f"{TENANT}timezone: EST5EDT\nrates:\n{RATE}, to: 2026-01-10}}\n{RATE}, from: 2026-01-11}}\n{RESERVED}}}\n",
        ": reservation r1 has no rate for model '*' from 2026-01-10T00:00:00-05:00; ",
    ),
    "reservation that outlives its rates": (
        f"{TENANT}rates:\n{RATE}, to: 2026-01-10}}\n{RESERVED}}}\n",
        ": reservation r1 has no rate for model '*' from 2026-01-10T00:00:00+00:00; ",
    ),
    "reservation twice": (
        f"{TENANT}{RESERVED}, rate: '1'}}\n{RESERVED.splitlines()[1]}, rate: '1'}}\n",
        ":5: reservations[1].id: reservation r1 stands twice; ",
    ),
    "reservation of nothing": (
        f"{TENANT}{RESERVED.replace('8', '0')}, rate: '1'}}\n",
        ":4: reservations[0].gpus: 0 GPUs reserve nothing; ",
    ),
    "backwards reservation": (
        f"{TENANT}{RESERVED.replace('2026-02', '2025-02')}, rate: '1'}}\n",
        ":4: reservations[0].to: `to` is not after `from`; ",
    ),
    "overhead twice": (
        "currency: USD\noverheads:\n- {name: s, monthly: '1'}\n- {name: s, monthly: '1'}\n",
        ":4: overheads[1].name: overhead 's' stands twice; ",
    ),
    # Sources
    "source of no kind": (
        "currency: USD\nsources: [{cluster: a}]\n",
        (
            ":2: sources[0]: expected exactly one of prometheus, metrics, samples, sacct, slurm_json, slurm_state, "
            "slurmrestd, kube_state, allocations, inventory, calendar, acceptance, found none; "
        ),
    ),
    "source of two kinds": (
        "currency: USD\nsources: [{sacct: a, metrics: b}]\n",
        "found metrics and sacct; make each source one entry",
    ),
    "key of another kind": (
        "currency: USD\nsources: [{metrics: a, timezone: UTC}]\n",
        ":2: sources[0].timezone: means nothing for a metrics source; take it out",
    ),
    "no URL": (
        "currency: USD\nsources: [{prometheus: 'localhost:9090'}]\n",
        ":2: sources[0].prometheus: 'localhost:9090' is no URL; write it as http://HOST:9090",
    ),
    "port of a URL": ("currency: USD\nsources: [{prometheus: 'http://a:99999'}]\n", "'http://a:99999' is no URL; "),
    "secret in the URL": (
        "currency: USD\nsources: [{prometheus: 'http://u:secret@a'}]\n",
        ":2: sources[0].prometheus: the URL holds a user; use username with password_env or password_file",
    ),
    "secret in the file": (
        "currency: USD\nsources: [{prometheus: 'http://a', password: x}]\n",
        ":2: sources[0].password: unknown key; did you mean password_",
    ),
    "token from two places": (
        "currency: USD\nsources: [{prometheus: 'http://a', bearer_token_env: T, bearer_token_file: t}]\n",
        ":2: sources[0].bearer_token_file: stands beside bearer_token_env, and only one can be used; ",
    ),
    "user without password": (
        "currency: USD\nsources: [{prometheus: 'http://a', username: u}]\n",
        ":2: sources[0].username: a user without a password; add password_env or password_file",
    ),
    "password without user": (
        "currency: USD\nsources: [{prometheus: 'http://a', password_env: P}]\n",
        "a password without `username`; add username",
    ),
    "half a client certificate": (
        "currency: USD\nsources: [{prometheus: 'http://a', cert_file: c.pem}]\n",
        ":2: sources[0].cert_file: a client certificate needs both cert_file and key_file; add the other",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_a_fault_is_one_line_that_names_file_line_key_and_mend(
    loaded: Load, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    said = str(caught.value)
    assert message in said
    assert said.startswith(str(tmp_path / "gpuledger.yaml"))
    assert "\n" not in said
    assert "secret" not in said
    assert caught.value.exit_status == 2


def test_a_fault_in_the_file_as_such_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file; name another with --config FILE"):
        load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load(tmp_path)
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"currency: USD\ntenants: [{id: a, name: caf\xe9}]\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: byte 0xe9 is not UTF-8; save the file as UTF-8"):
        load(path)


def test_the_smallest_file_has_the_documented_defaults(loaded: Load, tmp_path: Path) -> None:
    config = loaded("currency: USD\n")
    assert config.timezone == ZoneInfo("UTC")
    assert (config.sources, config.tenants, config.rates, config.reservations, config.spot) == ((), (), (), (), ())
    assert (config.idle.policy, config.sharing.split, config.mig.weight) == ("platform", "even", "max")
    assert (config.attribution.bridge, config.attribution.flicker) == (timedelta(minutes=30), timedelta(minutes=5))
    assert (config.energy.pue, config.energy.charge, config.sla.credit_downtime) == (Decimal(1), False, True)
    assert config.scrape_interval is None
    assert config.reporting_period is None
    assert config.path == tmp_path / "gpuledger.yaml"
    assert config.ledger == tmp_path / "ledger"


def test_an_emptied_section_is_one_left_out(loaded: Load) -> None:
    assert loaded("currency: USD\nrates:\nenergy: # later\n") == loaded("currency: USD\n")


def test_unquoted_text_is_taken_as_it_is_written(loaded: Load) -> None:
    config = loaded(
        "currency: USD\nperiod: 2026\ntenants:\n"
        "- {id: no, cost_center: 0471, tags: {build: 1.10, on: off}, match: [{slurm_account: 007, slurm_qos: yes}]}\n"
    )
    tenant = config.tenants[0]
    assert (tenant.id, tenant.cost_center, tenant.tags) == ("no", "0471", {"build": "1.10", "on": "off"})
    assert (tenant.match[0].slurm_account, tenant.match[0].slurm_qos) == ("007", "yes")
    assert config.reporting_period == Period(utc("2026-01-01"), utc("2027-01-01"))


def test_times_without_an_offset_are_local_to_the_zone_of_the_file(loaded: Load) -> None:
    config = loaded(
        "currency: USD\nrates:\n"
        "- {model: '*', on_demand: '1', to: 2026-07-01}\n"
        "- {model: '*', on_demand: '1', from: 2026-07-01T00:00:00-04:00, to: '2026-11-01 01:30'}\n"
        "window: {from: 2026-01-01T05:00:00Z, to: 2026-03-08T02:30}\n"
        "timezone: America/New_York\n"
    )
    assert config.rates[0].to == config.rates[1].from_ == utc("2026-07-01T04:00")
    assert config.rates[1].to == utc("2026-11-01T05:30")
    assert config.reporting_period == Period(utc("2026-01-01T05:00"), utc("2026-03-08T07:30"))


def test_a_tenant_carries_what_statements_need(loaded: Load) -> None:
    tenant = loaded(
        "currency: USD\ntenants: [{id: vision, budget: {gpu_hours: '8000'}, quota: {gpus: 32}, retired: 2026-07-01}]\n"
    ).tenants[0]
    assert tenant.name == "vision"
    assert tenant.budget is not None
    assert (tenant.budget.gpu_hours, tenant.budget.monthly) == (Decimal(8000), None)
    assert tenant.quota is not None
    assert (tenant.quota.gpus, tenant.retired) == (32, date(2026, 7, 1))


def test_a_source_says_its_kind_and_where_it_lies(loaded: Load, tmp_path: Path) -> None:
    sources = loaded(
        "currency: USD\nsources:\n"
        "- {prometheus: 'http://127.0.0.1:9090', headers_env: {X-Scope-OrgID: TENANT_ID}, bearer_token_file: token}\n"
        "- {metrics: old/metrics.prom.gz, cluster: prod, at: 2026-10-05T12:00:00Z}\n"
        "- {samples: /lake/samples.parquet}\n"
        "- {sacct: sacct.txt, timezone: Europe/Berlin, fields: 'JobID, State'}\n"
        "- {sacct: sacct.txt, fields: [JobID, State]}\n"
        "- {slurm_json: jobs.json}\n"
        "- {allocations: a.csv}\n"
        "- {inventory: i.csv, cluster: hpc}\n"
    ).sources
    assert [source.kind for source in sources] == [
        *("prometheus", "metrics", "samples", "sacct", "sacct", "slurm_json", "allocations", "inventory"),
    ]
    assert [source.cluster for source in sources] == [
        *("default", "prod", "default", "default", "default", "default", None, "hpc"),
    ]
    assert sources[0].location == sources[0].written == "http://127.0.0.1:9090"
    assert sources[0].headers_env == {"X-Scope-OrgID": "TENANT_ID"}
    assert sources[0].resolve("token") == tmp_path / "token"
    assert sources[1].path == tmp_path / "old" / "metrics.prom.gz"
    assert (sources[1].location, sources[1].written) == (str(tmp_path / "old/metrics.prom.gz"), "old/metrics.prom.gz")
    assert sources[1].at == utc("2026-10-05T12:00")
    assert sources[2].path == Path("/lake/samples.parquet")
    assert sources[3].timezone == ZoneInfo("Europe/Berlin")
    assert sources[3].fields == sources[4].fields == ("JobID", "State")


def test_a_class_without_a_price_costs_what_on_demand_costs(loaded: Load) -> None:
    rate = loaded("currency: USD\nrates: [{model: '*', on_demand: '3.20', reserved: '0', spot: '1.20'}]\n").rates[0]
    prices = [rate.price(class_) for class_ in ("on_demand", "reserved", "overflow", "spot")]
    assert prices == [Decimal("3.20"), Decimal(0), Decimal("3.20"), Decimal("1.20")]


def test_prices_stay_exact(loaded: Load) -> None:
    rates = loaded("currency: USD\nrates: [{model: '*', on_demand: '100.0000000001', spot: '0.000277'}]\n").rates
    assert (str(rates[0].on_demand), str(rates[0].spot)) == ("100.0000000001", "0.000277")


def test_rates_that_meet_do_not_overlap(loaded: Load) -> None:
    config = loaded(f"currency: USD\nrates:\n{RATE}, to: 2026-02-01}}\n{RATE}, from: 2026-02-01}}\n")
    assert [rate.holds(utc("2026-02-01")) for rate in config.rates] == [False, True]


@pytest.mark.parametrize(
    ("model", "own", "at", "price"),
    [
        ("*", "1.75", "2026-01-15", "1.75"),
        ("*", None, "2026-01-15", "9"),
        ("*h100*", None, "2026-01-15", "2.10"),
        ("*H100*", None, "2026-01-20", "2.00"),
        # An entry for all models speaks for a narrower reservation; the reverse is no match.
        ("A100", None, "2026-01-15", "9"),
        ("H[12]00", None, "2026-01-15", "4"),
    ],
)
def test_a_reservation_costs_its_own_rate_or_that_of_the_first_entry_for_its_model(
    loaded: Load, model: str, own: str | None, at: str, price: str
) -> None:
    config = loaded(
        f"{TENANT}rates:\n"
        "- {model: 'H[12]00', on_demand: '4'}\n"
        "- {model: '*H100*', to: 2026-01-20, on_demand: '3', reserved: '2.10'}\n"
        "- {model: '*H100*', from: 2026-01-20, on_demand: '3', reserved: '2.00'}\n"
        "- {model: '*', on_demand: '9'}\n"
        f"{RESERVED}, model: '{model}'{f', rate: {own!r}' if own else ''}}}\n"
    )
    assert reservation_rate(config, config.reservations[0], utc(at)) == Decimal(price)


def test_the_hash_follows_the_meaning_and_not_the_spelling(loaded: Load, tmp_path: Path) -> None:
    text = "currency: USD\nrates:\n- {model: '*', on_demand: '2.50', to: 2026-02-01}\nsources: [{metrics: a.prom}]\n"
    plain = loaded(text).config_hash
    same = [
        (
            "# A comment\nsources: [{cluster: default, metrics: a.prom}]\ncurrency: USD\n"
            "rates:\n- {to: 2026-02-01T01:00:00+01:00, on_demand: '2.5', model: '*'}\n"
        ),
        f"{text}timezone: UTC\nidle: {{policy: platform}}\nledger: ledger\n",
    ]
    other = [
        text.replace("2.50", "2.51"),
        text.replace("USD", "EUR"),
        text.replace("a.prom", "b.prom"),
        f"{text}timezone: Europe/Berlin\n",
        f"{text}idle: {{policy: even}}\n",
    ]
    assert [loaded(spelling).config_hash == plain for spelling in same] == [True, True]
    assert len({plain, *(loaded(change).config_hash for change in other)}) == len(other) + 1
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text(text, encoding="utf-8")
    assert load(elsewhere).config_hash == plain


def test_a_configuration_cannot_be_changed(loaded: Load) -> None:
    config = loaded("currency: USD\n")
    with pytest.raises(ValidationError):
        config.currency = "EUR"  # type: ignore[misc]


def test_models_take_their_own_types_from_python() -> None:
    source = Source(metrics="a.prom", at=utc("2026-01-01"))
    assert Config(currency="USD", sources=(source,)).sources[0].at == utc("2026-01-01")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "gpuledger.yaml"
    path.write_bytes(b"\xef\xbb\xbfcurrency: USD\r\n")
    assert load(path).currency == "USD"


def test_the_reference_is_up_to_date(repository: Path) -> None:
    written = (repository / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert written == render(), "run: python -m pipelines.config.reference > docs/configuration.md"


def test_the_example_of_the_reference_is_valid(loaded: Load) -> None:
    assert [tenant.id for tenant in loaded(EXAMPLE).tenants] == ["research", "vision"]


def test_every_key_has_a_meaning_in_the_reference() -> None:
    def models(model: type[BaseModel]) -> set[type[BaseModel]]:
        below = {found for field in model.model_fields.values() for found in models_in(field.annotation)}
        return {model}.union(*(models(found) for found in below))

    undescribed = [
        f"{model.__name__}.{name}"
        for model in models(Config)
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert undescribed == []


def test_every_published_case_is_valid(repository: Path) -> None:
    cases = sorted((repository.parent / "shared" / "cases").glob("*/gpuledger.yaml"))
    if not cases:
        pytest.skip("the published cases are not beside this checkout")
    assert all(load(case).rates for case in cases)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "- " * 100_000 + "a", "a:\n" + "\n".join(" " * n + "b:" for n in range(3000))]
)
def test_depth_is_noticed_before_the_stack_ends(tmp_path: Path, text: str) -> None:
    path = tmp_path / "gpuledger.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(path)


def test_both_readers_of_yaml_see_the_same() -> None:
    text = "a: &x {b: 010, c: 'no', d: no}\ne: [*x, 2026-10-01, ~]\nf: |\n  g\n"
    nodes = [yaml.serialize(yaml.compose(text, Loader=loader)) for loader in (reading._Loader, reading._FastLoader)]
    assert nodes[0] == nodes[1]
