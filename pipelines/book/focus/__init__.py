"""FOCUS, the FinOps Open Cost and Usage Specification: export in versions 1.2 and 1.4, and a checker of it."""
