# Headrace: `make run` starts it, `make test` tests it. `make help` lists all targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.done
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup run test quick check check-fast coverage docs docs-site pages demos bench chaos simulate fuzz dist programs lock vendor screenshots clean

help: ## Shows this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DONE)/headrace ## Installs all dependencies into .venv
# Compiled as pip does for an installed package: some environments forbid Python to do it as it goes, and a broker would
# then compile itself at every start.
	@$(BIN)/python -m compileall -q src

# Each step leaves a file behind, so that make does no step twice. It keeps a .venv that works.
$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Headrace needs Python 3.11 or newer ($(PYTHON) is not): install it, or run make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing: install the package python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "$(PYTHON) -m venv $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@mkdir -p $(DONE) && touch $@

$(DONE)/requirements: requirements.lock | $(DONE)/venv
	@echo "Installing Spark and the other dependencies into $(VENV): once, some minutes"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	@touch $@

$(DONE)/headrace: pyproject.toml $(DONE)/requirements
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

run: setup ## Runs a broker on localhost:9092, the web console and a word count on Spark, in ./data, until Ctrl-C
	@exec $(BIN)/headrace demo wordcount --data data

test: setup programs check ## Runs the checks, then every test, three at a time (tests/support/lanes.py); 25 minutes on two idle cores
	$(PYTEST) -n 3

# Without Java and without Apache Kafka: the unit tests that need neither, and a broker used by four real programs. The
# tests of the Python kit start many brokers, those of the tools read the whole tree: only `make test` runs them.
QUICK := tests/unit tests/conformance/test_confluent_kafka.py tests/conformance/test_aiokafka.py \
  tests/conformance/test_transactions.py tests/cli/test_topics.py tests/docs/test_page_runner.py \
  --ignore=tests/unit/testing --ignore=tests/unit/api --ignore=tests/unit/tools \
  --ignore=tests/unit/web/test_request_heads.py

quick: setup ## Runs the tests for daily work; under 90 seconds on two cores
	HEADRACE_EFFORT=quick $(PYTEST) -n 3 -q -m "not needs and not chaos" $(QUICK)

check: check-fast ## Checks style, links, types, layers and generated pages
	$(BIN)/mypy
	@mkdir -p build
	@$(BIN)/lint-imports --no-logo >build/lint-imports.txt 2>&1 || { cat build/lint-imports.txt; exit 1; }
	$(BIN)/python tools/generated_pages.py --check

check-fast: setup ## Checks style and links; takes seconds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/python tools/docs_site.py --check

coverage: setup programs ## Measures branch coverage of src by every test, with subprocesses (TESTS=tests/unit measures a part)
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest -n 2 $(TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet -d build/coverage/html
	$(BIN)/coverage report

docs: setup ## Writes the generated pages and types
	$(BIN)/python tools/generated_pages.py

docs-site: setup ## Builds the documentation as a site in build/site, with an offline search
	$(BIN)/python tools/docs_site.py

pages: setup programs ## Runs every command of the tutorial and the how-to guides, on Spark too (make test runs the short pages)
	HEADRACE_EFFORT=long $(PYTEST) tests/docs

demos: setup programs ## Runs every case study and use case at its shown size; each ends with a comparison
	$(BIN)/python tools/demos.py

bench: setup ## Compares with Apache Kafka on this machine: a table and build/bench/*.json
	$(BIN)/python -m benchmarks.log
	$(BIN)/python -m benchmarks

chaos: setup programs ## Runs fault tests: MINUTES=30 of random faults, or CYCLES=200 of kill -9 with figures; SECURED=1 with TLS
	HEADRACE_EFFORT=long MINUTES=$(MINUTES) CYCLES=$(CYCLES) SECURED=$(SECURED) $(PYTEST) $(if $(CYCLES),-s tests/cluster/test_kill_cycles.py,-m chaos)

simulate: setup ## Runs the simulated cluster with many seeds (SEEDS=1000)
	HEADRACE_EFFORT=long SEEDS=$(SEEDS) $(PYTEST) tests/simulation

fuzz: setup ## Runs random and mutated requests and files for longer than `make test`
	HEADRACE_EFFORT=long $(PYTEST) -m fuzz

dist: setup ## Builds the wheel and the source distribution into ./dist
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

programs: setup
	@$(BIN)/python tools/system_programs.py --install

lock: ## Resolves the dependencies again into requirements.lock (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: see https://docs.astral.sh/uv" >&2; exit 1; }
	uv pip compile --universal --python-version 3.11 --generate-hashes --extra spark --extra sql --extra connectors --extra xml --extra dev --extra docs --no-header --no-annotate \
	  -o requirements.lock pyproject.toml

vendor: setup ## Fetches the browser files of the web console from npm again (needs npm; installing does not)
	$(BIN)/python tools/vendor.py

screenshots: setup programs ## Makes the pictures of the web console in docs/console again (needs Chromium)
	$(BIN)/python tools/console_screenshots.py

clean: ## Removes .venv, caches and build; keeps ./data and the downloaded jars in .cache
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
