# Every target sets itself up; `make` alone lists them.
#   PYTHON=python3.12   the interpreter for .venv (default: the first of 3.11 or later found)
#   ARGS="-k lifetime"  passed on to the program that the target runs

PYTHON ?=
ARGS ?=
export PYTHON

PY := .venv/bin/python
WITH_JAVA := JAVA_HOME="$$(sh scripts/ensure-java.sh)" && export JAVA_HOME &&
CODE := $(wildcard src tests benchmarks experiments)

# A target whose program is not part of this checkout fails and says so.
require = @test -e $(1) || { echo "There is no $(1) in this checkout, so '$@' has nothing to run." >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format bench experiments mutants clean ready java classes \
  bytecode

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: classes ## join two streams on local Spark, with a kill and a resume in the middle
	$(call require,src/mayfly/demo)
	@$(WITH_JAVA) $(PY) -m mayfly.demo $(ARGS)

test: classes bytecode ## run the tests in two processes, without those marked slow
	@$(WITH_JAVA) $(PY) -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: classes bytecode ## run every test: clusters, crash campaigns, many more examples
	@$(WITH_JAVA) HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-all} $(PY) -m pytest $(ARGS)

lint: ready ## check style, formatting and types
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check $(CODE)
	@$(PY) -m mypy $(CODE)

format: ready ## rewrite the code in the project's format
	@$(PY) -m ruff check --select I --fix --quiet $(CODE)
	@$(PY) -m ruff format $(CODE)

bench: classes ## check results, then measure speed; figures go to benchmarks/results
	$(call require,benchmarks/__main__.py)
	@$(WITH_JAVA) $(PY) -m benchmarks $(ARGS)

experiments: classes ## repeat the papers' experiments
	$(call require,experiments/__main__.py)
	@$(WITH_JAVA) $(PY) -m experiments $(ARGS)

mutants: classes ## plant known mistakes one by one; the tests must notice each
	$(call require,tests/mutants/run.py)
	@$(WITH_JAVA) $(PY) tests/mutants/run.py $(ARGS)

clean: ## remove caches and build output (delete .venv yourself to start afresh)
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse \
	  metastore_db derby.log demo-run
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

ready:
	@sh scripts/set-up.sh

classes: java ready
	@$(WITH_JAVA) $(PY) -m mayfly.spark.cluster.class_archive

# Tests start hundreds of processes; each would compile the source anew where
# PYTHONDONTWRITEBYTECODE is set.
bytecode: ready
	@$(PY) -m compileall -q src tests

java:
	@sh scripts/ensure-java.sh >/dev/null
