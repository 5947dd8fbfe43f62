# The entry points of this repository. Each sets up .venv first, and does that once.
.PHONY: help demo test test-grafana test-slurm test-spark lint bench

help:
	@echo 'make demo [ARGS=--no-serve]   replay the demo fleet, print where the money went, serve the app on loopback'
	@echo 'make test [ARGS=tests/app]    the whole test suite, on every core'
	@echo 'make test-crash               kill the pipeline 200 times, against a real Prometheus (apt-get install prometheus)'
	@echo 'make test-grafana             boards against the types of Grafana 11 to 13 (npm)'
	@echo 'make test-slurm               the ledger against a real Slurm on loopback (Debian packages)'
	@echo 'make test-spark               the roll-up on a real Spark cluster of two workers on loopback (Java 17)'
	@echo 'make lint                     ruff and mypy'
	@echo 'make bench                    every benchmark, into bench/results.json; make bench-NAME runs bench/NAME.py'

demo:
	@scripts/setup
	@.venv/bin/gpuledger demo $(ARGS)

test:
	@scripts/setup test
	@.venv/bin/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder $(ARGS)

test-crash:
	@scripts/setup test
	@GPULEDGER_CRASHES=200 .venv/bin/python -m pytest tests/end_to_end/test_crashes.py $(ARGS)

test-grafana:
	@scripts/setup test
	@scripts/grafana-schemas
	@.venv/bin/python -m pytest tests/dashboards/test_boards.py tests/dashboards/test_schemas.py $(ARGS)

test-slurm:
	@scripts/setup slurm
	@GPULEDGER_SLURM=1 .venv/bin/python -m pytest tests/slurm -v $(ARGS)

test-spark:
	@scripts/setup spark
	@GPULEDGER_SPARK_HOME=$$(echo $(CURDIR)/.venv-spark/lib/python*/site-packages/pyspark) \
		.venv/bin/python -m pytest tests/spark -v $(ARGS)

lint:
	@scripts/setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: $(patsubst bench/%.py,bench-%,$(sort $(wildcard bench/[a-z]*.py)))
	@test -n '$^' || echo 'no benchmark is there yet'

bench-ingest: SETUP = bench

bench-%: bench/%.py
	@scripts/setup $(SETUP)
	@.venv/bin/python $< $(ARGS)
