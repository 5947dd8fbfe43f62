"""docs/configuration.md, generated from the models so that it can't fall behind them.

``python -m pipelines.config.reference > docs/configuration.md`` writes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, Literal, get_args, get_origin
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipelines.config import Config
from pipelines.config.faults import models_in
from pipelines.config.scalars import Written

EXAMPLE: Final = """\
currency: USD
timezone: America/New_York

sources:
  - {prometheus: "http://127.0.0.1:9090", cluster: prod, headers_env: {X-Scope-OrgID: TENANT_ID}}
  - {metrics: metrics.prom, cluster: prod}
  - {sacct: sacct.txt, cluster: hpc}
  - {allocations: allocations.csv}
  - {inventory: inventory.csv}

tenants:
  - id: research
  - id: vision
    name: Vision Research
    parent: research
    match:
      - {namespace: "vision-*"}
      - {slurm_account: vision, slurm_partition: "gpu*"}
    budget: {monthly: "20000.00"}
    cost_center: "4711"
    quota: {gpus: 32}

rates:
  - {model: "*H100*", from: 2026-01-01, to: 2026-07-01, on_demand: "3.20", reserved: "2.10"}
  - {model: "*H100*", from: 2026-07-01, on_demand: "3.00", reserved: "2.00"}
  - {model: "*", on_demand: "2.50"}

reservations:
  - {id: r1, tenant: vision, model: "*H100*", gpus: 64, from: 2026-10-01, to: 2026-11-01}

spot:
  - {slurm_qos: "scavenger*"}

idle: {policy: proportional}
energy: {price_per_kwh: "0.12", pue: "1.3", carbon_g_per_kwh: "380"}
overheads:
  - {name: storage, monthly: "12000.00", split: even}
sla: {credit_downtime: true}
closing: {issuer: Research Computing, coverage: "0.95", grace: 3d}
"""
"""A whole file that `load` takes."""

_INTRODUCTION: Final = f"""\
# Configuration

One file, `gpuledger.yaml`, says where measurements come from, who pays, and what a GPU-hour costs.
`gpuledger check` reads it and names what is wrong by file, line and key. This page is generated from
the models in `pipelines/config/`.

```yaml
{EXAMPLE}```

## How values are written

- **quoted decimal**: money, rates and factors, such as `"2.50"`. Without the quotes it is an error, since other
  tools that read the file would round it.
- **time**: ISO 8601, such as `2026-11-03`, `2026-11-03T09:30` or `2026-11-03T09:30:00Z`. One without an offset is local
  to `timezone`; a day alone is its local midnight. Where the clock was set back, a time that occurs twice means the
  first; one that the clock skipped moves forward by what was skipped.
- **duration**: a number with its unit, such as `30s`, `5m`, `1h30m`, `1d` or `2w`.
- **glob**: `*`, `?`, `[seq]` and `[!seq]` over the whole text, ignoring case. A label that a workload doesn't have
  matches nothing, not even `*`.
- **text** needs no quotes unless YAML would read it as `true`, `false`, `null` or a mapping. Unquoted numbers are
  taken as they are written: `cost_center: 0471` keeps its zero.
- Paths are relative to the file. Secrets are never in it: keys that end in `_env` name an environment variable, those
  that end in `_file` a file.
- YAML aliases are read; merge keys (`<<`), tags and a second document are errors, and so is a key that stands twice.

## What is checked beyond single values

- Tenant, reservation and overhead names stand once; parents exist and form no circle; a reservation's tenant exists.
- Two rates with the same `model`, ignoring case, never overlap in time. The first entry that matches model and time
  wins.
- A reservation has a `rate` of its own, or at each instant an entry of `rates` whose `model` glob matches the text of
  the reservation's `model`.
- `to` comes after `from`; the instant `to` itself no longer counts.
"""


def render() -> str:
    """The page as Markdown: an introduction, then one table per model, in the order of use."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    yield from _section("Top level", Config)
    seen: set[type[BaseModel]] = {Config}
    waiting = [(f"`{_key(name, field)}`", field) for name, field in Config.model_fields.items()]
    while waiting:
        title, field = waiting.pop(0)
        for model in models_in(field.annotation):
            if model in seen:
                continue
            seen.add(model)
            yield from _section(title, model)
            waiting[:0] = [(f"{title[:-1]}.{_key(name, below)}`", below) for name, below in model.model_fields.items()]


def _section(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{(model.__doc__ or '').strip()}\n"
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    for name, field in model.model_fields.items():
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{_key(name, field)}` | {_value(field)} | {_default(field)} | {meaning} |"
    yield ""


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _value(field: FieldInfo) -> str:
    for written in field.metadata:
        if isinstance(written, Written):
            return written.text
    return _written(field.annotation)


def _written(annotation: Any) -> str:
    arguments = [argument for argument in get_args(annotation) if argument not in {type(None), ...}]
    marks = [argument for argument in arguments if isinstance(argument, Written)]
    if marks:
        text = marks[0].text
    elif get_origin(annotation) is Literal:
        text = ", ".join(f"`{choice}`" for choice in arguments)
    elif get_origin(annotation) is tuple:
        text = f"list of {_written(arguments[0])}"
    elif arguments:
        text = _written(arguments[0]) if len(arguments) == 1 else "mapping of text"
    else:
        text = {bool: "`true`, `false`", str: "text"}.get(annotation, "mapping")
    return text


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True, validated_data={})
    values = default if isinstance(default, tuple) else (default,)
    return ", ".join(f"`{text}`" for value in values if (text := _default_text(value)))


def _default_text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return f"{value // timedelta(minutes=1)}m"
        case Decimal():
            return f'"{value}"'
        case str() | ZoneInfo():
            return str(value)
        case _:
            return ""


if __name__ == "__main__":
    sys.stdout.write(render())
