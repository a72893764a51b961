PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo docs docs-serve test test-all coverage lint types format wheel fuzz bench audit audit-controls clean check-explainer check-bound check-engine check-store

demo: $(READY)
	$(BIN)/pellucid demo --output demo-output

# Tests of Spark stay in one process, which starts Spark once.
test: $(READY)
	@command -v java >/dev/null || echo "no Java here: the Spark engine is NOT tested (install a JRE, 17 or newer)"
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# All that must hold before a change lands, and what is slow and rarely breaks.
test-all:
	.ci/run
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

# Measures the privacy that every release promises, on made-up records: see docs/audit.md.
audit: $(READY)
	$(BIN)/pellucid audit

# Patches faults into the code that makes releases, one at a time: the audit must fail with each.
audit-controls: $(READY)
	$(BIN)/python -m pytest -m "slow or not slow" tests/audit/test_controls.py

# Twice as slow as the tests alone, so by hand.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --cov=pellucid --cov-report=term --cov-fail-under=90

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What is checked for you when you have added something: see docs/contributing.md.
check-explainer: $(READY)
	$(BIN)/python -m pytest -n 2 tests/contract tests/test_surface.py tests/test_layers.py -k "$(NAME) or layers or surface"

check-bound: $(READY)
	$(BIN)/python -m pytest -n 2 tests/test_proofs.py tests/test_claims_attained.py tests/query

check-engine: $(READY)
	$(BIN)/python -m pytest -n 2 tests/engine

check-store: $(READY)
	$(BIN)/python -m pytest -n 2 tests/ledger

# The wheel in a clean environment; about a minute.
wheel: $(READY)
	.ci/wheel

# Five thousand random requests, about half an hour; `make test` has some 150.
fuzz: $(READY)
	$(BIN)/python benchmarks/fuzz.py --cases 5000

# The site, below site/: pages, reference, and a gallery that is drawn anew. Warnings are errors.
docs: $(READY)
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html, or run make docs-serve"

docs-serve: docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(READY)
	@echo "each benchmark is run by hand; see benchmarks/RESULTS.md for the commands"

clean:
	rm -rf .venv demo-output

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e ".[dev]" || $(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $(READY)
