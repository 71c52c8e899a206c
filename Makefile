# Everything is made from a fresh clone with git, make and Python 3.11 or 3.12; see registry/decisions/0001.
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules

VENV := .venv
PYTHON ?=
# The environment is named by the lock's content: another lock is another environment, whatever the clocks say.
STAMP := $(VENV)/.made-from-$(shell git hash-object requirements.lock)
UV := $(VENV)/bin/uv

# Stages and tests find python, dvc and reckon of the environment first; nothing phones home or asks the hub.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PYTHONNOUSERSITE := 1
export DVC_NO_ANALYTICS := true
export MLFLOW_DISABLE_TELEMETRY := true
export HF_HUB_DISABLE_TELEMETRY := 1
export HF_HUB_OFFLINE := 1
WANDB_MODE ?= offline
export WANDB_MODE
# A stage is three processes; each would compile our own modules anew where the shell forbids to keep them.
unexport PYTHONDONTWRITEBYTECODE

# Files of tests side by side, on all cores up to four: a worker may need two gigabytes. The longest files begin first.
PARALLEL := -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: help repro rehearse test test-fast lint bench lock clean environment

help:
	@printf '%s\n' \
	  'make repro      run the whole pipeline, keep its bytes, and say what is recorded' \
	  'make rehearse   publish, pull, audit and tamper with the release of it, on a hub of our own' \
  'make test       all tests' \
	  'make test-fast  the tests that need no minutes' \
	  'make lint       style, layers and types' \
	  'make bench      measure against what one would use instead' \
	  'make lock       solve the dependencies again (requirements.lock)' \
	  'make clean      remove caches of tools; never .venv, artifacts or records'

environment: $(STAMP)

repro: $(STAMP)
	@dvc repro
	dvc push
	reckon status

rehearse: $(STAMP)
	@python -m benchmarks.rehearsal

test: $(STAMP)
	@python -m pytest $(PARALLEL)

test-fast: $(STAMP)
	@python -m pytest $(PARALLEL) -m 'not slow'

lint: $(STAMP)
	@ruff check
	ruff format --check
	lint-imports
	mypy

bench: $(STAMP)
	@python -m benchmarks

clean:
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find registry train tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The index is the machine's own affair: no address goes into the lock or onto the screen.
lock: $(STAMP)
	@$(UV) pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --prerelease=if-necessary-or-explicit \
	  --custom-compile-command 'make lock' --quiet -o requirements.lock 2> >($(HIDE) >&2)
	if grep -nE '[a-z]+://' requirements.lock; then
	  echo 'make: requirements.lock names an address (above); it must not.' >&2
	  exit 1
	fi

HIDE := sed -E "s|https?://[^ '\"]+|<address>|g"
# Prints the interpreter itself (not a shim, not one of a virtual environment) if it fits.
FITS := import ensurepip, sys, venv; (3, 11) <= sys.version_info[:2] < (3, 13) or sys.exit(1); print(sys._base_executable)

# The stamp comes last, so that an environment whose making was interrupted is made anew.
$(STAMP): | requirements.lock
	@own="$(CURDIR)/$(VENV)/bin"
	PATH=$${PATH//"$$own":/}
	for candidate in $(or $(PYTHON),python3 python3.12 python3.11); do
	  chosen=$$("$$candidate" -c '$(FITS)' 2>/dev/null) && break || chosen=
	done
	if [ -z "$$chosen" ]; then
	  echo "make: this needs Python 3.11 or 3.12 with its venv module; $(or $(PYTHON),python3) is $$($(or $(PYTHON),python3) --version 2>&1 | head -n 1)." >&2
	  echo 'make: install one (Debian: python3.11 and python3.11-venv), or name one: make PYTHON=/path/to/python3.12 ...' >&2
	  exit 2
	fi
	echo "Making $(VENV) with $$("$$chosen" --version) from requirements.lock ..."
	rm -rf $(VENV)
	"$$chosen" -m venv $(VENV)
	awk '/^[^ #]/ { ours = /^uv==/ } ours' requirements.lock > $(VENV)/uv.lock.txt
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps \
	  -r $(VENV)/uv.lock.txt 2> >($(HIDE) >&2)
	export VIRTUAL_ENV="$(CURDIR)/$(VENV)"
	$(UV) pip install --quiet --compile-bytecode --require-hashes -r requirements.lock 2> >($(HIDE) >&2)
	$(UV) pip install --quiet --no-deps --no-build-isolation -e . 2> >($(HIDE) >&2)
	touch $@
