"""Queries of the board on the stack itself."""

from __future__ import annotations

from typing import Final

from dashboards.variables import CLUSTER, NODE
from exporter.catalog import PREFIX
from pipelines.promql.recorded import COVERAGE, HELD, IDENTITY, NODE_PRESENT

JOBS: Final = 'job=~"(?i).*(gpuledger|dcgm|gpu.?exporter).*"'
_ON: Final = f"{{{CLUSTER},{NODE}}}"

EXPORTERS_UP: Final = f"sum(up{{{JOBS}}})"
EXPORTERS_DOWN: Final = f"count(up{{{JOBS}}}) - sum(up{{{JOBS}}})"
COVERED: Final = f"min({COVERAGE}{{{CLUSTER}}})"
LEDGER_AGE: Final = f"time() - max({PREFIX}pipeline_last_success_timestamp_seconds)"
PASSES_FAILED: Final = f'sum(increase({PREFIX}pipeline_passes_total{{result="failed"}}[1h]))'
UNATTRIBUTED: Final = f'sum({HELD}{{{CLUSTER},tenant="unattributed"}}) or 0 * count({IDENTITY}{{{CLUSTER}}})'

AGE: Final = f"max by (node) ({PREFIX}sample_age_seconds{_ON})"
PASS: Final = f"max by (node) ({PREFIX}pass_duration_seconds{_ON})"
REJECTED: Final = f"sum by (node) (rate({PREFIX}rejected_samples_total{_ON}[$__rate_interval]))"
UNRESOLVED: Final = f"sum by (node) ({PREFIX}owner_unresolved_devices{_ON})"
ADAPTERS: Final = f"min by (node, adapter) ({PREFIX}owner_adapter_up{_ON})"
COVERAGE_BY_CLUSTER: Final = f"min by (cluster) ({COVERAGE}{{{CLUSTER}}})"
PRESENT: Final = f"sum by (cluster) ({NODE_PRESENT}{_ON})"
LEDGER_PASS: Final = f"max({PREFIX}pipeline_last_pass_duration_seconds)"
PASSES: Final = f"sum by (result) (rate({PREFIX}pipeline_passes_total[$__rate_interval])) * 3600"
LAG: Final = f"max by (source) ({PREFIX}pipeline_watermark_lag_seconds)"
ROWS: Final = f"sum by (kind) (rate({PREFIX}pipeline_rows_total[$__rate_interval])) * 3600"
FINDINGS: Final = f"sum by (code) (increase({PREFIX}pipeline_findings_total[1h])) > 0"
RULES: Final = 'max by (rule_group) (prometheus_rule_group_last_duration_seconds{rule_group=~".*gpuledger.*"})'
RULE_FAILURES: Final = 'sum(increase(prometheus_rule_evaluation_failures_total{rule_group=~".*gpuledger.*"}[1h]))'
SERIES: Final = "max(prometheus_tsdb_head_series)"
SCRAPES: Final = f"max by (job) (scrape_duration_seconds{{{JOBS}}})"
