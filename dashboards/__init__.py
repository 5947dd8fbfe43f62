"""Grafana dashboards, generated from the catalogue."""
