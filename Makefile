# Two commands do everything: `make demo` and `make test`. Both set up `.venv` first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check format clean

demo: .venv/ok
	$(BIN)/unitail demo

test: .venv/ok
	$(BIN)/pytest

check: .venv/ok
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

format: .venv/ok
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/ok: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
