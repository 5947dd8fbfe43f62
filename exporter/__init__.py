"""The exporter: what each GPU of a node does and who holds it, as Prometheus metrics."""
