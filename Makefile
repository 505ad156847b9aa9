# Four commands do everything on a machine with python3.11, pip and make:
#   make demo    set up, then fit real and simulated multitask problems and draw the picture
#   make test    set up, then lint, types, tests and doctests
#   make bench   set up an environment with the other libraries, then time all of them (about ten minutes)
#   make reproduce   set up, then rerun the paper's experiments (about forty minutes on two cores; goes on if stopped)
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_VENV ?= .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.installed

.PHONY: demo test bench reproduce lint setup clean

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or run make PYTHON=python3"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# the other libraries need older versions than the constraints have
$(BENCH_STAMP): pyproject.toml
	test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bench,cli]'
	touch $@

bench: $(BENCH_STAMP)
	$(BENCH_VENV)/bin/mmtfl bench --out bench-output --force

reproduce: $(STAMP)
	$(BIN)/mmtfl reproduce --out reproduce-output

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(STAMP) lint
	.ci/chromium
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

clean:
	rm -rf $(VENV) $(BENCH_VENV) build dist .mypy_cache .ruff_cache .pytest_cache
