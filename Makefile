# On a machine with python3.11, pip and make:
#   make demo        set up what the demo needs, then fit real and simulated multitask problems and draw the picture
#   make build       compile src/mmtfl/core again, where a .pyx or .pxd file has changed
#   make test        set up, then lint, types, tests and doctests of the library
#   make test-lab    the tests of the laboratory: benchmark, paper, loaders of real data
#   make test-all    the same with the slow tests: scikit-learn's checks of the searches with their default grids
#   make sanitize    the tests of the core with bounds checks and the sanitizers of gcc (addresses, undefined behaviour)
#   make processors  the numerical tests under the arithmetic of other processors
#   make fuzz        set up, then fit hostile problems and read spoilt files by the seed (some minutes; docs/reliability.md)
#   make kills       set up, then kill commands at random moments, go on and compare bits (some minutes)
#   make docs        set up, then build the site in docs/_build/html (some minutes; every example is run)
#   make wheels      wheels for Linux in dist/, for every Python at hand, each tried in a bare environment (a minute)
#   make bench       set up an environment with the other libraries, then time all of them (about ten minutes)
#   make reproduce   set up, then rerun the paper's experiments (about forty minutes on two cores; goes on if stopped)
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
BENCH_VENV ?= .venv-bench
INSTALL = -m pip install --quiet --disable-pip-version-check --editable
CORE := hatch_build.py $(wildcard src/mmtfl/core/*.pyx src/mmtfl/core/*.pxd)
# two processes on two cores: with threads of OpenMP as well, those of boosting wait for each other
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q
NO_LAB = --ignore=tests/lab --ignore=src/mmtfl_lab

.PHONY: build demo test test-lab test-all sanitize processors fuzz kills docs wheels bench reproduce lint setup clean

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or run make PYTHON=python3"; exit 1; }
	@echo "Making the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing mmtfl with pandas and matplotlib (the first time takes about half a minute)"
	@touch $(VENV)/.core.new
	@$(BIN)/python $(INSTALL) '.[frames,plots]' cython --constraint constraints.txt
	@mv $(VENV)/.core.new $(VENV)/.core
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing mmtfl with its development tools (the first time takes a minute or two)"
	@touch $(VENV)/.core.new
	@$(BIN)/python $(INSTALL) '.[dev]' --constraint constraints.txt
	@mv $(VENV)/.core.new $(VENV)/.core
	@touch $@ $(VENV)/.demo

# an install compiles the core too; this does it in seconds. The time of .core is that of the start: what is edited
# in between is compiled next time
$(VENV)/.core: $(CORE) | $(VENV)/.demo
	@touch $@.new
	@$(BIN)/python hatch_build.py
	@mv $@.new $@

build: $(VENV)/.core

setup: $(VENV)/.installed build

demo: $(VENV)/.demo build
	$(BIN)/python examples/demo.py

# the other libraries need older versions than the constraints have
$(BENCH_VENV)/.installed: pyproject.toml $(CORE)
	test -x $(BENCH_VENV)/bin/python || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python $(INSTALL) '.[bench,cli]'
	touch $@

bench: $(BENCH_VENV)/.installed
	$(BENCH_VENV)/bin/python -m mmtfl_lab bench --out bench-output --force

reproduce: setup
	$(BIN)/python -m mmtfl_lab reproduce --out reproduce-output

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(BIN):$$PATH" cython-lint src/mmtfl/core

test: lint
	.ci/chromium
	$(PYTEST) $(NO_LAB)

test-lab: setup
	$(PYTEST) tests/lab src/mmtfl_lab

test-all: lint
	.ci/chromium
	$(PYTEST) -m ""

# the interpreter itself is not built with the sanitizer, so its library is loaded first; libstdc++ for packages in C++
sanitize: setup
	CC=gcc $(BIN)/python hatch_build.py sanitized
	MMTFL_CORE=sanitized PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so)" \
	$(BIN)/python -m pytest -q --capture=sys tests/core tests/solvers/test_compiled_paths.py

processors: setup
	.ci/processors $(BIN)/python

fuzz: setup
	$(BIN)/python benchmarks/fuzz.py
	$(BIN)/python benchmarks/fuzz_files.py

kills: setup
	$(BIN)/python benchmarks/kills.py

# the pages' examples first: then the site, in which tutorials and pictures are run
$(VENV)/.docs: $(VENV)/.installed
	@echo "Installing what builds the site"
	@$(BIN)/python $(INSTALL) '.[dev,docs]' --constraint constraints.txt
	@touch $@

docs: $(VENV)/.docs build
	$(PYTEST) docs README.md
	$(BIN)/python -m sphinx -b html -W --keep-going docs docs/_build/html
	@echo "Written: docs/_build/html/index.html"

wheels:
	.ci/wheels

clean:
	rm -rf docs/_build docs/generated $(VENV) $(BENCH_VENV) build dist src/mmtfl/core/*/ .mypy_cache .ruff_cache .pytest_cache
