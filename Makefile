# make quickstart   install, then train a small language model on real text (minutes, on a CPU)
# make test         install, then lint, type-check and test
# make help         the rest

VENV ?= .venv
# The first Python between 3.10 and 3.13 that runs.
PYTHON ?= $(shell for p in python3 python3.12 python3.11 python3.13 python3.10; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
EXTRAS ?= cpu,dev
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PREFLIGHT := $(VENV)/.preflight
TORCH ?= torch
TORCH_VENV ?= .venv-torch

.DEFAULT_GOAL := help
.PHONY: help install tpu-install quickstart test lint unit faults bench torch tpu-presets clean

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-14s %s\n", $$1, $$2}'

install: $(READY)  ## install into .venv (EXTRAS=gpu,dev for a GPU; docs/tpu.md for a TPU)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "tpudeck needs Python 3.10 to 3.13, and none was found: make PYTHON=/path/to/python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: on Debian and Ubuntu, apt install python3-venv" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $(READY)

tpu-install: EXTRAS = tpu
tpu-install: install  ## install on a TPU VM: tf-keras alone would bring a second TensorFlow over the TPU's
	$(BIN)/python -m pip install --quiet 'tensorflow-tpu==2.20.0' 'libtpu==0.0.21'
	$(BIN)/python -m pip install --quiet --no-deps 'tf-keras==2.20.1'
	$(BIN)/tpudeck doctor

quickstart: install  ## from text to a trained model, in minutes on a CPU
	$(BIN)/tpudeck quickstart

$(PREFLIGHT): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[preflight]'
	@touch $@

test: install $(PREFLIGHT) lint  ## the TPU compiler too (300 MB), then lint, types, contracts, and every test
	$(BIN)/pytest -q

unit: install  ## the tests that need no TensorFlow, in parallel
	$(BIN)/pytest -q -n 2 -m 'not training and not slow'

lint: install  ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

faults: install  ## kill, stop and starve real runs, over two hundred times (long)
	PYTHONPATH=tests $(BIN)/python -m faults

tpu-presets: install $(PREFLIGHT)  ## compile every shipped TPU preset for its chips with the real TPU compiler (an hour)
	for preset in presets/*-base-*.toml; do $(BIN)/tpudeck preflight $$preset || exit 1; done

bench: install  ## the ratios against the published way
	for bench in benchmarks/*.py; do echo "== $$bench"; $(BIN)/python $$bench || exit 1; done

$(TORCH_VENV)/.ready:
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(TORCH_VENV)/bin/python -m pip install --quiet '$(TORCH)' 'transformers>=5,<6' safetensors
	@touch $@

torch: install $(TORCH_VENV)/.ready  ## open exported models in PyTorch and Transformers 5 (large download; TORCH=torch==X picks one)
	TPUDECK_TORCH_PYTHON=$(TORCH_VENV)/bin/python $(BIN)/pytest -q -m torch

clean:  ## remove what make made
	rm -rf $(VENV) $(TORCH_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
