# Two commands on a fresh machine with Python 3.11 and make:
#   make demo    compile and run examples/couples on real data
#   make test    every check and test
#   make check   the inner loop: every check, and all tests but the dearest
# Each makes its own virtual environment; PYTHON=... chooses the interpreter.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
DEV := .venv
DEMO := .venv-demo
BENCH := .venv-bench
LOWEST := .venv-lowest
NEXT := .venv-next

# One worker per core, each with one thread: threads of several workers would only wait for each other.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
TEST := $(ONE_THREAD) $(DEV)/bin/pytest -q -n auto

# What every supported environment must pass: all units and the command line, without the dearest.
CORE := -m "not slow and not wide" tests/unit tests/golden tests/statistical --ignore=tests/unit/benchmarks

.PHONY: demo examples check test coverage test-lowest test-next test-engines lint test-slow audit bench bench-large bench-adaptive bench-pgm format clean

demo: $(DEMO)/.ready
	@$(DEMO)/bin/python examples/couples/couples.py

examples: $(DEMO)/.ready
	$(DEMO)/bin/python examples/couples/couples.py
	$(DEMO)/bin/python examples/census2000/census2000.py
	$(DEMO)/bin/python examples/surveys/surveys.py
	$(DEMO)/bin/python examples/adult/adult.py

check: lint
	$(TEST) -m "not slow and not wide"

test: lint
	$(TEST) -m "not slow"

# Every branch of qcompile/privacy and qcompile/run is taken by a test of these.
coverage: $(DEV)/.ready
	$(TEST) -m "not slow" --cov --cov-report=term-missing --cov-fail-under=100 tests/unit/privacy tests/unit/run \
		tests/unit/adaptive/test_release.py tests/unit/test_repr.py tests/statistical tests/audit \
		tests/conformance/test_privacy.py

# The core with the lowest allowed version of every dependency, and on another Python: make test-next NEXT_PYTHON=...
test-lowest: $(LOWEST)/.ready
	$(ONE_THREAD) $(LOWEST)/bin/python -m pytest -q -n 2 $(CORE)

test-next: $(NEXT)/.ready
	$(ONE_THREAD) $(NEXT)/bin/python -m pytest -q -n 2 $(CORE)

# Spark and PostgreSQL against the other engines; fails where one of them cannot be had, see .ci/provision.
test-engines: $(DEV)/.ready-engines
	QCOMPILE_ENGINES=1 $(ONE_THREAD) $(DEV)/bin/pytest -q -n 2 --dist loadfile -m engines tests/engines

lint: $(DEV)/.ready
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports

test-slow: $(DEV)/.ready
	HYPOTHESIS_PROFILE=thorough $(TEST)

# What an auditor wants to see: costs by brute force, an attack, planted bugs, kills, processes that race for a ledger.
audit: $(DEV)/.ready
	$(TEST) tests/audit tests/unit/adaptive/test_privacy.py tests/conformance/test_crashes.py tests/conformance/test_side_channels.py \
		tests/conformance/test_privacy.py tests/unit/privacy/test_ledger.py

bench: $(DEV)/.ready
	$(DEV)/bin/python benchmarks/tables.py -o benchmarks/results/tables.md
	$(DEV)/bin/python benchmarks/growth.py -o benchmarks/results/growth.md
	$(DEV)/bin/python benchmarks/long_axes.py -o benchmarks/results/long-axes.md
	$(DEV)/bin/python benchmarks/largest.py -o benchmarks/results/largest.md

# Large releases (3 minutes), and 100 million rows (3 GB of temporary files; Spark and PostgreSQL with --spark, --server).
bench-large: $(DEV)/.ready
	$(ONE_THREAD) $(DEV)/bin/python benchmarks/streaming.py -o benchmarks/results/streaming.md
	$(ONE_THREAD) $(DEV)/bin/python benchmarks/many_rows.py -o benchmarks/results/rows.md
	$(ONE_THREAD) $(DEV)/bin/python benchmarks/rows_and_cells.py -o benchmarks/results/rows-and-cells.md

# Adaptive runs; with AIM and Private-PGM (bench-pgm, up to an hour, before it) where they were measured.
bench-adaptive: $(BENCH)/.ready
	$(ONE_THREAD) $(BENCH)/bin/python benchmarks/adaptive.py -o benchmarks/results/adaptive.md

bench-pgm: $(BENCH)/.ready
	$(BENCH)/bin/python benchmarks/pgm.py

format: $(DEV)/.ready
	$(DEV)/bin/ruff format .
	$(DEV)/bin/ruff check --fix .

$(DEV)/.ready: EXTRA := dev
$(DEMO)/.ready: EXTRA := examples
$(BENCH)/.ready: EXTRA := bench
# Where Lark finds interegular every parser it builds looks for ambiguities, which takes longer than all else that
# `qcompile check` does. So it stands aside, and the test of the grammar alone uses it.
ADD_AMBIGUITY_CHECK = $(@D)/bin/python -m pip install -q --target $(@D)/ambiguity "interegular>=0.3.3"
$(DEV)/.ready: AFTER = $(ADD_AMBIGUITY_CHECK)
$(DEV)/.ready $(DEMO)/.ready $(BENCH)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q --upgrade pip
	$(@D)/bin/python -m pip install -q -e ".[$(EXTRA)]"
	$(AFTER)
	touch $@

$(LOWEST)/.ready: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q --upgrade pip
	$(PYTHON) .ci/lowest.py > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install -q -e ".[test]" -c $(@D)/constraints.txt
	$(ADD_AMBIGUITY_CHECK)
	touch $@

$(NEXT)/.ready: pyproject.toml
	@test -n "$(NEXT_PYTHON)" || { echo "set NEXT_PYTHON=/path/to/python3.13, or another Python to test on"; exit 1; }
	$(NEXT_PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -q --upgrade pip
	$(@D)/bin/python -m pip install -q -e ".[test]"
	$(ADD_AMBIGUITY_CHECK)
	touch $@

$(DEV)/.ready-engines: $(DEV)/.ready
	$(DEV)/bin/python -m pip install -q -e ".[postgres,spark]"
	touch $@

clean:
	rm -rf $(DEV) $(DEMO) $(BENCH) $(LOWEST) $(NEXT) .coverage* build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
