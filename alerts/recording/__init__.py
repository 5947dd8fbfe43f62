"""The recording layer: from two exporters' names to the few series that dashboards and alerts read."""

from __future__ import annotations

from alerts.recording import budgets
from alerts.recording.devices import devices
from alerts.recording.fleet import fleet
from alerts.recording.holders import holders
from alerts.recording.money import money
from alerts.recording.states import states
from alerts.recording.tenants import tenants
from alerts.rule import Group, RecordingRule
from alerts.stock import Stock
from pipelines.config import Config

__all__ = ["recording"]


def recording(config: Config, stock: Stock) -> list[Group]:
    """The groups.

    The first is one group because its rules run in order and at one timestamp: a chain of them is never a minute apart.
    """
    chain: list[RecordingRule] = [
        *devices(config, stock),
        *holders(config, stock),
        *states(),
        *fleet(stock),
        *tenants(config),
        *money(config),
        *budgets.pace(config),
    ]
    month = list(budgets.used(config))
    groups = [Group("gpuledger-recording", "1m", [rule.as_yaml() for rule in chain])]
    if month:
        groups.append(Group("gpuledger-month", "15m", [rule.as_yaml() for rule in month]))
    return groups
