"""Prometheus rules, Alertmanager configuration and runbooks, generated from the catalogue."""
