# `make demo` and `make test` are all that a newcomer needs. Every target sets up `.venv` first.
PYTHON ?= python3
BIN := .venv/bin
# One more than there are cores: tests of servers, browsers and clusters wait.
WORKERS ?= $(shell expr $$(nproc 2> /dev/null || echo 3) + 1)
# Keep what Python compiles: else every process that a test starts compiles torch again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick check lint types layers audit docs format clean

demo: .venv/ok  ## few-shot tasks from real tables, beside simple methods
	$(BIN)/unitail demo

test: .venv/ok  ## all tests, on all cores
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

quick: .venv/ok  ## a minute's tests of models, learners and inputs, for work in progress
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m "not slow" $(addprefix tests/,golden theorems) \
		$(addprefix tests/unit/,framework nn tail relational baselines learners tasks inputs)

check: lint types layers audit docs  ## what continuous integration runs; the tests come last
	$(MAKE) test

lint: .venv/ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/ok
	$(BIN)/mypy

layers: .venv/ok
	$(BIN)/lint-imports

audit: .venv/ok  ## licences of what is needed, and known holes where the index can be reached
	$(BIN)/python tools/audit.py

docs: .venv/ok  ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/ok
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv site runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/ok: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --no-compile --no-deps 'label-studio-sdk==2.1.*'  # see pyproject.toml
	touch $@
