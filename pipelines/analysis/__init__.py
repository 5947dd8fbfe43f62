"""Why GPUs are slow: samples and usage → causes, each with its evidence, its share of time and the money it lost.

It reads what was measured and never how it was simulated: nothing here imports `pipelines.simulate`, nor the reverse.
"""
