"""The history of each alert, by subject."""

from __future__ import annotations

from tests.alerts.cases.capacity import CAPACITY
from tests.alerts.cases.hardware import HARDWARE
from tests.alerts.cases.metering import METERING
from tests.alerts.cases.tenancy import TENANCY
from tests.alerts.cases.waste import WASTE

CASES = [*HARDWARE, *WASTE, *TENANCY, *CAPACITY, *METERING]
