# Two commands do everything: `make demo` and `make test`. Both set up what they need in .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/pip --disable-pip-version-check install -q --no-compile -c constraints.txt
# pip compiles one file after the other, and there are 14,000; some packages bring files that no Python compiles.
# Ours, too: four workers of pytest would each compile it. What pytest collects, it compiles in its own way.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/test_' $(VENV)/lib $(wildcard */) || true

.PHONY: demo check test together test-all chaos lint check-python install dev clean help
.DEFAULT_GOAL := help

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: install ## Set up and run one real search on the CPU: compile, verify, time, win.
	$(BIN)/kernelswarm optimize problems/mapid.py --pool cpu --budget 16 --minutes 2.5 --out kernelswarm-out

# Two workers for each of two cores: tests wait for clocks, files and processes a sixth of their time.
TOGETHER := -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# Nothing is timed in what runs together: threads that wait for each other leave the cores to the other tests.
ASLEEP := OMP_WAIT_POLICY=passive

# Nothing here starts a device: 160 CPU seconds together.
QUICK := tests/house tests/knowledge tests/store tests/synthesizer tests/agents/test_planner.py \
	tests/agents/test_confirmations.py tests/agents/test_analyst.py tests/agents/test_analyst_devices.py \
	tests/codegen/test_drafting.py \
	tests/codegen/test_generator_plan.py tests/codegen/test_triton_plan.py \
	tests/codegen/test_triton_convolutions.py

check: dev lint ## Style, types, and the third of the tests that starts no device: before every commit.
	$(ASLEEP) $(BIN)/pytest -m "not timed and not thorough" $(TOGETHER) $(QUICK)

test: lint together ## Set up, check style and types, and run the tests; `make -j2 test` checks beside the tests.
	$(BIN)/pytest -m "timed and not thorough"

together: dev
	$(ASLEEP) $(BIN)/pytest -m "not timed and not thorough" $(TOGETHER)

test-all: dev lint ## The same, and every further case of a kind that the tests have already (twice the time).
	$(ASLEEP) $(BIN)/pytest -m "not timed" $(TOGETHER)
	$(BIN)/pytest -m timed

ROUNDS ?= 20

chaos: dev ## Run ROUNDS=20 searches while processes, disks and connections fail; is anything lost? (docs/chaos.md)
	$(BIN)/python -m kernelswarm.tests.chaos --rounds $(ROUNDS) $(ARGS)

lint: dev ## Style and types only.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .

install: $(VENV)/.installed ## Set up .venv with what running needs.

dev: $(VENV)/.installed-dev ## Set up .venv with what testing needs.

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; $$($(PYTHON) --version 2>&1) was found. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }

$(VENV)/bin/python: | check-python
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml setup.py constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -e .
	@$(COMPILE)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml setup.py constraints.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -e ".[dev]"
	@$(COMPILE)
	@touch $@ $(VENV)/.installed

clean: ## Remove .venv and caches; what searches found stays.
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
