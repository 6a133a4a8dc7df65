# Every target makes or reuses .venv by itself, so that on a bare machine `make test` is the first command.
# A stamp per extra says it is installed; a stamp older than pyproject.toml is renewed, otherwise it costs nothing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RESULTS := results

# One BLAS thread per process: the tests run in two processes, and timings are stated for one thread.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
# Bytecode is kept, whatever the environment says: every command that a test starts would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

# pytest-benchmark complains beside xdist, and warnings are errors: it is only loaded by `make bench`.
PYTEST := $(BIN)/pytest -q -n 2 --dist worksteal -p no:benchmark
FAST := not statistical and not cluster and not slow

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help reproduce test slowest test-all coverage seed-sweep backends bench docs lint format clean

help:
	@echo "make reproduce  a quick re-run of the paper's experiments, into $(RESULTS)/quick"
	@echo "make test       the tests, without those marked statistical, cluster or slow"
	@echo "make test-all   every test"
	@echo "make slowest    the tests of 'make test', and the slowest of them by name"
	@echo "make coverage   the tests of 'make test', and which lines they reach, into $(RESULTS)/coverage"
	@echo "make seed-sweep the statistical tests on SEEDS=2 other seeds each"
	@echo "make backends   installs PyTorch and JAX, so that the tests run on them too"
	@echo "make docs       the documentation site, into docs/_build/html"
	@echo "make bench      timings and peak memory, into $(RESULTS)/bench"
	@echo "make lint       ruff and mypy; 'make format' mends what ruff can mend"

reproduce: $(VENV)/.installed-experiments
	$(BIN)/replaystats reproduce all qlearning --quick --out $(RESULTS)/quick

test: $(VENV)/.installed-test
	$(PYTEST) -m "$(FAST)"

slowest: $(VENV)/.installed-test
	$(PYTEST) -m "$(FAST)" --durations=40 --durations-min=0.5

test-all: $(VENV)/.installed-test
	$(PYTEST)

coverage: $(VENV)/.installed-test
	$(PYTEST) -m "$(FAST)" --cov --cov-report=term --cov-report=html

SEEDS ?= 2
FIRST_SEED ?= 1
seed-sweep: $(VENV)/.installed-test
	$(PYTEST) tests -m statistical --seed-sweep $(SEEDS) --first-seed $(FIRST_SEED)

# PyTorch first and by its exact version: a range would bring the newest build, with several GB of GPU libraries.
TORCH := $(shell grep '^torch==' constraints/backends.txt)
backends: $(VENV)/.installed-backends
$(VENV)/.installed-backends: pyproject.toml constraints/backends.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --constraint constraints/backends.txt --editable '.[backends]'
	@touch $@

docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.installed-bench
	mkdir -p $(RESULTS)/bench
	$(BIN)/pytest -q benchmarks -o python_files='bench_*.py' --benchmark-json=$(RESULTS)/bench/benchmarks.json
	$(BIN)/python benchmarks/table.py $(RESULTS)/bench/benchmarks.json $(RESULTS)/bench/table.md
	$(BIN)/python benchmarks/growth.py $(RESULTS)/bench/table.md

# mypy reads the optional packages' types, so the experiments extra comes along.
lint: $(VENV)/.installed-lint $(VENV)/.installed-experiments
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.installed-lint
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) $(RESULTS) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "replaystats needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Without compiling: half of the work of an installation is bytecode of modules that nobody imports.
$(VENV)/.installed-%: pyproject.toml constraints/lint.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints/lint.txt --editable '.[$*]'
	@touch $@
