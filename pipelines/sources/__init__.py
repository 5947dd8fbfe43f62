"""Adapters: each kind of source read into the tidy tables of `pipelines.tables`, and nothing else."""
