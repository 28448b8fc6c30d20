# Everything starts from here: `make demo` shows the library at work, `make test` runs every check.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo test fast lint bench docs figures release-check clean

setup: $(VENV)/.ready

# PyTorch comes first and pinned, so that no other package chooses a build of it.
$(VENV)/.ready: pyproject.toml lab/pyproject.toml $(wildcard src/minframe/*/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]" --editable "lab[dynamics,is2re,toptag]"
	touch $@

# Errors above the bound are exit status 1; the report is still made, and ends with the same status.
demo: setup
	$(BIN)/minframe verify --quick --output report || [ $$? -eq 1 ]
	$(BIN)/minframe bench --quick --output report
	$(BIN)/minframe report --quick --output report

test: lint
	$(BIN)/python -m pytest -n 2

# A sample of every test, in a minute or so on two cores.
fast: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --fast

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python lab/benchmarks/frames.py
	$(BIN)/python lab/benchmarks/linear.py
	$(BIN)/python lab/benchmarks/permutations.py
	$(BIN)/python lab/benchmarks/graphs.py
	$(BIN)/python lab/benchmarks/compiled.py

# The pages in docs/, as docs/_build/index.html. The tests build them as well, and run every example in them.
docs: setup
	$(BIN)/python -m sphinx -W --keep-going -n -q -E -a -b html docs docs/_build

# The pictures on those pages, drawn again.
figures: setup
	$(BIN)/python docs/figures/draw.py

# Builds sdist and wheel, and runs the README where nothing but the wheel and PyTorch is installed.
release-check: setup
	$(BIN)/python tools/release_check.py

clean:
	rm -rf $(VENV) docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
