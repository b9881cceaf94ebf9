# Everything a person needs; `make` alone explains itself. Uses uv where it is installed, stock pip elsewhere.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
UV ?= $(shell command -v uv 2>/dev/null)
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: help demo test check format format-check lint types mypy pyright rooms bench bench-peers soak clean

help: ## Show this help
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

# $(1): extra to install, $(2): arguments for uv sync. `--inexact` keeps what a larger extra has brought.
define install
	@test -n "$(PYTHON)" || { echo "evalspan needs Python 3.11, 3.12 or 3.13: install one, or run: make PYTHON=/path/to/python3.11"; exit 2; }
	@if [ -n "$(UV)" ]; then \
		UV_PROJECT_ENVIRONMENT=$(VENV) "$(UV)" sync --quiet --frozen --inexact --compile-bytecode --python "$(PYTHON)" $(2); \
	else \
		test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV); \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(1)]"; \
	fi
	@touch $@
endef

$(VENV)/.server: pyproject.toml uv.lock
	@echo "Installing evalspan with its server parts into $(VENV) (a minute or two the first time) ..."
	$(call install,server,--no-dev --extra server)

$(VENV)/.dev: pyproject.toml uv.lock
	@echo "Installing evalspan with its development tools into $(VENV) (a few minutes the first time) ..."
	$(call install,dev,--all-extras)
	@touch $(VENV)/.server

demo: $(VENV)/.server ## Start everything on the embedded store, run sample agents, show their scores (ARGS=--once ends by itself)
	@$(BIN)/evalspan demo $(ARGS)

test: $(VENV)/.dev ## Run all tests, two at a time (ARGS="-k spool" narrows them)
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile $(ARGS)

check: $(VENV)/.dev format-check lint types rooms test ## Everything CI checks

format: $(VENV)/.dev ## Format and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet . ; $(BIN)/ruff format .

format-check: $(VENV)/.dev
	@$(BIN)/ruff format --check --quiet .

lint: $(VENV)/.dev ## Lint
	@$(BIN)/ruff check .

types: mypy pyright ## mypy strict and pyright strict, on source and tests

mypy: $(VENV)/.dev
	@$(BIN)/mypy

pyright: $(VENV)/.dev
	@$(BIN)/pyright --pythonpath $(BIN)/python

rooms: $(VENV)/.dev ## Check that imports go left only
	@$(BIN)/lint-imports

bench: $(VENV)/.dev ## Measure ourselves (ARGS="--quick --json")
	@for b in bench/reconstruct.py bench/ingest.py bench/evaluators.py bench/overhead.py; do \
		test -f $$b && { echo "== $$b"; $(BIN)/python $$b $(ARGS); }; done

bench-peers: $(VENV)/.dev ## Install the peers we measure against, each in its own environment under .peers/
	@$(BIN)/python bench/peers.py install

soak: $(VENV)/.dev ## The long forms of the reliability tests (an hour or more)
	@$(BIN)/python -m pytest -q -m soak --timeout 7200 $(ARGS)

clean: ## Remove environments, caches and build output
	@rm -rf $(VENV) .peers dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
