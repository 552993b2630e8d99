# Everything does its own set-up: a virtual environment in .venv, jars in .jars, each made once.

PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH :=
# pip compiles nothing here. If Python may not keep what it compiles, as in many containers, each process compiles all
# that it imports.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --custom-compile-command 'make lock'

.PHONY: setup jars lock sbom demo try test unit lint format bench soak truth compat compat-spark mutants clean

setup: .venv/.ready .jars/delta .jars/spark.jsa .jars/kafka-classes

# Nothing is installed whose checksum is not in a file here. So nothing is built in an environment that pip fills itself. Python compiles what is
# imported, a small part of it, when it is.
.venv/.ready: pyproject.toml constraints.txt constraints-build.txt tools/check_machine.py
	@$(PYTHON) tools/check_machine.py
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear .venv
	@echo "install Python packages into .venv (1.6 GB: a minute or more, pip says nothing meanwhile)"
	$(PIP) install --require-hashes --only-binary :all: --requirement constraints-build.txt
	$(PIP) install --require-hashes --no-build-isolation --no-compile --requirement constraints.txt
	$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	@$(PIP) check
	@touch $@

# The versions of both files stay unless pyproject.toml asks for others, or UPGRADE names a package. What pyproject.toml
# has more than constraints.txt cannot be installed yet.
lock:
	@test -x $(BIN)/uv || $(MAKE) .venv/.ready
	$(LOCK) --extra dev $(UPGRADE:%=--upgrade-package %) --output-file constraints.txt pyproject.toml
	$(LOCK) --group build $(UPGRADE:%=--upgrade-package %) --output-file constraints-build.txt
	$(MAKE) .venv/.ready
	$(BIN)/python -m tools.licences

# What is installed with the package, for whoever has to say so.
sbom: .venv/.ready
	$(BIN)/python -m tools.sbom dist/kafka-metadata-history.cdx.json

.jars/delta: .venv/.ready kafka_metadata_history/jars/delta.py
	$(BIN)/python -m kafka_metadata_history.jars.delta
	@touch $@

.jars/spark.jsa: .jars/delta conf/spark-defaults.conf tools/class_archive.py tools/first_run.py
	@echo "run Spark once, to keep its classes: it starts in half the time then (a minute or more)"
	$(BIN)/python -m tools.class_archive spark

.jars/kafka-classes: .venv/.ready tools/class_archive.py
	@echo "download Kafka and run it once, to keep its classes, for tests alone (a minute or more)"
	$(BIN)/python -m tools.class_archive kafka
	@touch $@

jars: .jars/delta .jars/kafka-classes

demo: .venv/.ready .jars/delta
	$(BIN)/kafka-metadata-history demo

try: .venv/.ready
	@test -n "$(BOOTSTRAP)" || { echo "usage: make try BOOTSTRAP=host:port [CONFIG=client.yaml]"; exit 2; }
	@$(BIN)/kafka-metadata-history check --bootstrap "$(BOOTSTRAP)" $(if $(CONFIG),--client "$(CONFIG)")

# Three processes take the files by turns: while one waits for brokers, the two cores have work. Two of them have a Spark
# session (tests/support/processes.py). They start Spark so seldom that they need no archive of its classes, and brokers
# so often that they do of theirs.
test: .venv/.ready .jars/delta .jars/kafka-classes
	$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup --no-loadscope-reorder --durations 30 --durations-min 20

unit: .venv/.ready
	$(BIN)/python -m pytest --numprocesses 2 tests/unit

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.check_docs
	$(BIN)/python -m tools.check_deploy

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks --keep

# HALF=1 is what needs no brokers, HALF=2 the rest.
soak: setup
ifneq ($(HALF),2)
	$(BIN)/python -m pytest --numprocesses 2 --hypothesis-profile soak --timeout=7200 tests/unit
	$(BIN)/python -m pytest -m soak --timeout=7200 --ignore tests/kafka
endif
ifneq ($(HALF),1)
	$(BIN)/python -m pytest -m soak --timeout=7200 tests/kafka
endif

truth: setup
	$(BIN)/python -m truth --long
	$(BIN)/python -m truth.groups
	$(BIN)/python -m truth.groups --kafka-version 3.9.2
	$(BIN)/python -m truth.transactions
	$(BIN)/python -m truth.transactions --kafka-version 3.9.2

# Small changes of the product, each of which a test must notice. PART=today is a twentieth, another one each day.
mutants: .venv/.ready
	$(BIN)/python -m tools.mutants $(PART:%=--part %)

compat: setup
	$(BIN)/python -m pytest -m soak tests/kafka/test_versions.py
	$(BIN)/python -m truth --versions $(VERSIONS)

# Pairs of Spark and Delta, each in an environment of its own. PAIRS=4.2.1/4.4.0 is one of them.
compat-spark: setup
	$(BIN)/python -m tools.compat_spark $(PAIRS)

clean:
	rm -rf .venv .jars .local-cluster .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
