# Every target makes .venv when it is missing; all settings live in pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: browser demo serve test check style types floors fast bench docs notebooks format clean

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

.venv/.web: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[web]'
	touch $@

serve: .venv/.web  ## the page and its service, on this machine
	$(BIN)/whence serve

test: style types floors browser  ## everything CI runs: the checks and all tests
	$(BIN)/python -m pytest -n 2

browser:  ## Chromium for the tests of the page: installed if it is missing and that is allowed; without it they are skipped
	command -v chromium chromium-browser google-chrome || (apt-get -qq update && apt-get -qq install --yes chromium) \
		|| echo "Chromium cannot be installed here: the tests of the page in a browser are skipped"

check:  ## format, lint, types, floors and the fast tests, in under a minute; two at a time
	$(MAKE) --no-print-directory -j 2 types style floors fast

style: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.installed
	$(BIN)/pyright

floors: .venv/.installed
	$(BIN)/lint-imports

fast: .venv/.installed  ## the tests that take moments; tests/conftest.py lists those that take long
	$(BIN)/python -m pytest -n 2 -m 'not slow'

bench: .venv/.installed  ## what an explanation costs, as a ratio to the prediction
	$(BIN)/whence bench

docs: notebooks  ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "written to build/site; to search it, too: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1"

notebooks: $(patsubst docs/tutorials/%.py,build/notebooks/%.ipynb,$(wildcard docs/tutorials/*.py))  ## the tutorials, executed

build/notebooks/%.ipynb: docs/tutorials/%.py | .venv/.installed
	mkdir -p $(@D)
	$(BIN)/jupytext --quiet --to ipynb --output $@.tmp.ipynb $<
	$(BIN)/jupyter nbconvert --log-level WARN --to notebook --execute --output $(@F) $@.tmp.ipynb
	rm $@.tmp.ipynb

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis demo build
