"""The recorded layer: the few series that rules record, by level, metric and operation.

Rules make them (``alerts/recording``), dashboards and alerts read them, and the lint knows their labels from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_CARD: Final = ("cluster", "node", "gpu", "uuid", "model")
_DEVICE: Final = (*_CARD, "gpu_instance", "gpu_profile")
_NODE: Final = ("cluster", "node")
_CARD_KEY: Final = ("cluster", "uuid")
_DEVICE_KEY: Final = (*_CARD_KEY, "gpu_instance")

RECORDED: Final[dict[str, Recorded]] = {}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded series.

    Args:
        name: ``level:metric:operations``.
        labels: every label that it may have; it has no other.
        help: what a value means, its unit included.
        key: labels by which one series is found.
    """

    name: str
    labels: tuple[str, ...]
    help: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def _recorded(name: str, labels: tuple[str, ...], text: str, *, key: tuple[str, ...] | None = None) -> Recorded:
    RECORDED[name] = Recorded(name, labels, text, labels if key is None else key)
    return RECORDED[name]


# Devices: what there is, and what it does.
IDENTITY: Final = _recorded(
    "device:identity:info",
    _DEVICE,
    "1 for each device that can be held: a card, or a MIG instance of one.",
    key=_DEVICE_KEY,
)
SLICE: Final = _recorded(
    "device:mig_slice:ratio", _DEVICE, "Part of its card that a MIG profile takes by itself.", key=_DEVICE_KEY
)
WEIGHT: Final = _recorded(
    "device:mig_weight:ratio",
    _DEVICE,
    "Part of its card that a MIG instance is; cards without instances have none.",
    key=_DEVICE_KEY,
)
SLOTS: Final = _recorded("device:slots:count", ("cluster", "uuid"), "Time slices of a card, as the inventory has them.")
BUSY: Final = _recorded(
    "device:busy:ratio", _DEVICE, "Share of time in which the device's engine was busy.", key=_DEVICE_KEY
)
HELD: Final = _recorded(
    "device_tenant:held:gpus",
    (*_DEVICE, "tenant", "spot"),
    "GPUs that a tenant holds on a device: weight × share.",
    key=(*_DEVICE_KEY, "tenant", "spot"),
)

# Events and states: only devices that have one have a series.
XID_LAST: Final = _recorded(
    "device:xid_last:code", _CARD, "Code of the last XID where there was one; it sticks.", key=_CARD_KEY
)
XID_RECENT: Final = _recorded(
    "device:xid_recent:info",
    (*_CARD, "xid"),
    "1 while an XID error came in the last 15 minutes.",
    key=(*_CARD_KEY, "xid"),
)
ECC_LOST: Final = _recorded(
    "device:ecc_uncorrected:count",
    _CARD,
    "Uncorrected ECC errors since the driver was loaded, where there were any.",
    key=_CARD_KEY,
)
NVLINK_ERRORS: Final = _recorded(
    "device:nvlink_errors:count",
    _CARD,
    "NVLink recoveries since the driver was loaded, where there were any.",
    key=_CARD_KEY,
)
STATE: Final = _recorded(
    "device:state:code",
    (*_CARD, "state"),
    "Value of a state that is not as it should be: what the driver asks for, bad memory, thresholds passed.",
    key=(*_CARD_KEY, "state"),
)
CONDITION: Final = _recorded(
    "device:condition:active",
    (*_CARD, "condition"),
    "1 in each minute in which a card is in a condition.",
    key=(*_CARD_KEY, "condition"),
)

# Nodes, models and the fleet.
NODE_PRESENT: Final = _recorded("node:gpus:present", _NODE, "Cards of a node that answer.")
NODE_EXPECTED: Final = _recorded("node:gpus:expected", _NODE, "Cards that a node should have.")
NODE_POWER: Final = _recorded("node:power:watts", _NODE, "Power draw of a node's cards.")
NODE_POWER_LIMIT: Final = _recorded("node:power_limit:watts", _NODE, "Sum of the power limits of a node's cards.")
NODE_RACK: Final = _recorded(
    "node:rack:info", (*_NODE, "rack"), "1 for each node whose rack the inventory names.", key=_NODE
)
NODE_BUDGET: Final = _recorded("node:power_budget:watts", _NODE, "Power that the inventory grants a node's cards.")
MODEL_CAPACITY: Final = _recorded("model:capacity:gpus", ("cluster", "model"), "Cards of a model that are there.")
MODEL_HELD: Final = _recorded("model:held:gpus", ("cluster", "model"), "GPUs of a model that anybody holds.")
MODEL_FREE: Final = _recorded("model:free:gpus", ("cluster", "model"), "GPUs of a model that nobody holds.")
COVERAGE: Final = _recorded(
    "cluster:coverage:ratio", ("cluster",), "Share of held devices whose engine activity is known."
)

UNIT_CHECK: Final = _recorded(
    "cluster:unit_check:ratio",
    ("cluster", "check"),
    "energy: joules a second per watt; utilisation: the driver's highest over the engines' highest. Both near 1.",
)

# Tenants and money.
TENANT_HELD: Final = _recorded("tenant:held:gpus", ("tenant", "model", "spot"), "GPUs that a tenant holds.")
TENANT_IDLE: Final = _recorded(
    "tenant:idle_held:gpus", ("tenant", "model"), "GPUs that a tenant held for an hour at under 5 % busy."
)
TENANT_ACTIVE: Final = _recorded(
    "tenant:active:gpus", ("tenant", "model"), "GPUs held × busy ratio, over the devices whose activity is known."
)
QUOTA: Final = _recorded("tenant:quota:gpus", ("tenant",), "GPUs that a tenant may hold before it is overflow.")
BUDGET: Final = _recorded("tenant:budget:per_month", ("tenant",), "Money that a tenant means to spend in a month.")
BUDGET_HOURS: Final = _recorded(
    "tenant:budget_gpu_hours:per_month", ("tenant",), "GPU-hours that a tenant means to use in a month."
)
RESERVED: Final = _recorded("tenant:reserved:gpus", ("tenant", "reservation"), "GPUs reserved now.")
RESERVATION_END: Final = _recorded(
    "tenant:reservation_end:timestamp_seconds", ("tenant", "reservation"), "When a reservation that runs now ends."
)
RESERVED_USED: Final = _recorded(
    "tenant:reserved_used:gpus", ("tenant", "reservation", "model"), "GPUs held that a reservation pays for."
)
RESERVATION_USED: Final = _recorded(
    "tenant:reservation_used:ratio", ("tenant", "reservation"), "Part of a reservation that is used now."
)
BY_CLASS: Final = _recorded(
    "tenant_class:held:gpus", ("tenant", "model", "class"), "GPUs that a tenant holds by class."
)
PRICE: Final = _recorded("model:price:per_gpu_hour", ("model", "class"), "Price of a GPU-hour in force now.")
RESERVATION_COST: Final = _recorded(
    "tenant:reservation_cost:per_hour", ("tenant", "reservation"), "What a reservation costs an hour, used or not."
)
USAGE_COST: Final = _recorded(
    "tenant_class:usage_cost:per_hour", ("tenant", "model", "class"), "What GPUs held beyond reservations cost an hour."
)
TENANT_COST: Final = _recorded(
    "tenant:cost:per_hour", ("tenant",), "What a tenant costs an hour now: reservations and usage."
)
BUDGET_PACE: Final = _recorded(
    "tenant:budget_pace:ratio", ("tenant",), "Pace at which a budget is used; at 1 it lasts exactly a month."
)
BUDGET_USED: Final = _recorded(
    "tenant:budget_used:ratio", ("tenant",), "Part of this calendar month's budget that is used, to the last full hour."
)
MONTH_START: Final = _recorded(
    "calendar:month_start:timestamp_seconds", (), "Local midnight at which this month began, in Unix time."
)
IDLE_COST: Final = _recorded(
    "tenant:idle_held_cost:per_hour", ("tenant", "model"), "On-demand price of the GPUs that a tenant holds idle."
)
FREE_COST: Final = _recorded(
    "model:free_cost:per_hour", ("cluster", "model"), "On-demand price of the GPUs that nobody holds."
)
