# Every target makes .venv when it is missing; all settings live in pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench format clean

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e

.venv/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[paper]'
	touch $@

.venv/.installed: .venv/.demo
	$(INSTALL) '.[dev]'
	touch $@

demo: .venv/.demo  ## explain a few sequences on the terminal
	$(BIN)/python examples/demo.py

test: check  ## everything CI runs: the checks and all tests
	$(BIN)/python -m pytest -n 2

check: .venv/.installed  ## format, lint, types, floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: .venv/.installed  ## what an explanation costs, as a ratio to the prediction
	$(BIN)/whence bench

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis demo
