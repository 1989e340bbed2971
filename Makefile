# Everything here needs python3 (3.11 or later) and make. What is installed goes into folders of
# this project, and only when the file it depends on has changed.

PYTHON ?= python3
BIN := .venv/bin
ORACLE := .venv-oracle
PEERS := .venv-peers
TUMULT := .venv-tumult
PYTEST := $(BIN)/python -m pytest
IN_TWO := --quiet --numprocesses 2 --dist loadscope --progress
# Twice quiet: warnings are silent, errors are printed and stop make.
INSTALL := -m pip --quiet --quiet --disable-pip-version-check install

export CONFIDE_ORACLE_PYTHON ?= $(CURDIR)/$(ORACLE)/bin/python
export CONFIDE_PEERS_PYTHON ?= $(CURDIR)/$(PEERS)/bin/python
export CONFIDE_TUMULT_PYTHON ?= $(CURDIR)/$(TUMULT)/bin/python

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-fast check coverage soak seeds format format-check lint types layers generate bench bench-compare bench-scale bench-utility bench-peers oracle peers pictures docs matrix tree lock clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

demo: .venv/core  ## ask a health survey a few questions
	@$(BIN)/confide demo

test: .venv/dev $(ORACLE)/ready  ## run every test and every example in the code and the documents
	@tools/install_program.sh chromium chromium
	@tools/install_program.sh java openjdk-17-jre-headless
	$(PYTEST) $(IN_TWO) --durations 30 --durations-min 1

test-fast: .venv/dev  ## run what needs no Java, browser or oracle and is not slow: two minutes
	$(PYTEST) $(IN_TWO) -m "not slow and not spark and not browser and not oracle"

check: format-check lint types layers docs test  ## what CI runs

format-check: .venv/dev  ## complain about code that `make format` would change
	$(BIN)/ruff format --check .

lint: .venv/dev  ## look for likely mistakes, and for banned phrases
	$(BIN)/ruff check .
	$(BIN)/python -m tools.check_english

types: .venv/dev  ## check types strictly
	$(BIN)/mypy

layers: .venv/dev  ## check who imports whom
	$(BIN)/lint-imports --no-cache

format: .venv/dev  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: .venv/dev  ## write the methods of statistics, and their table, from the registry
	$(BIN)/python -m tools.write_statistics

bench: .venv/dev $(ORACLE)/ready  ## measure speed, as ratios within one run
	$(BIN)/python bench/__main__.py

# The revision to compare with, and the benchmarks.
REV ?= HEAD
BENCH ?= curator utility

bench-compare: .venv/dev  ## compare speed and errors with another revision: REV=main
	$(BIN)/python bench/compare.py $(REV) $(BENCH)

bench-scale: .venv/dev  ## measure time and memory up to 10^8 rows, on each engine
	@tools/install_program.sh java openjdk-17-jre-headless
	$(BIN)/python bench/scale.py

bench-utility: .venv/dev $(ORACLE)/ready $(PEERS)/ready  ## measure errors at equal privacy against four other libraries
	@missed=0; for script in utility estimates models; do \
		echo "$(BIN)/python bench/$$script.py"; $(BIN)/python bench/$$script.py || missed=1; \
	done; exit $$missed

bench-peers: .venv/dev $(ORACLE)/ready $(PEERS)/ready $(TUMULT)/ready  ## measure errors and seconds beside five other libraries, and write the page
	$(BIN)/python bench/beside.py --write

oracle: $(ORACLE)/ready  ## install the libraries we compare ourselves with

peers: $(PEERS)/ready  ## install those of them that clash with the oracles

# The packages that the guarantee rests on, and the tests that are about them.
GROUND := noise loss mechanisms ledger

coverage: .venv/dev  ## measure branch coverage of noise, loss, mechanisms and ledger
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --quiet -m "not slow and not spark and not oracle" \
		$(addprefix tests/,$(GROUND)) tests/contracts tests/crash
	$(BIN)/coverage report

# Each runs for an hour by itself, or for as many minutes as it is told.
SOAKS := tools/soak.py
MINUTES ?= 60

soak: .venv/dev  ## run what takes hours: kills, random neighbours, odd requests, many analysts
	CONFIDE_KILLS=5000 CONFIDE_MODEL_STEPS=100000 $(BIN)/python -m pytest --nightly tests/crash tests/contracts
	@for script in $(SOAKS); do $(BIN)/python $$script --minutes $(MINUTES) || exit 1; done
	CONFIDE_SCHEMA_CASES=10000 $(BIN)/python -m pytest tests/server/test_schema.py
	CONFIDE_LOAD_ANALYSTS=50 CONFIDE_LOAD_QUESTIONS=100 $(BIN)/python -m pytest tests/server/test_load.py

# How many seeds; --dist load, since a few files have most of the seeded tests.
SEEDS ?= 20

seeds: .venv/dev $(ORACLE)/ready  ## run what depends on chance with other seeds: the seeded tests, and property tests
	@for seed in $$(seq $(SEEDS)); do echo "seed $$seed of $(SEEDS)"; \
		CONFIDE_TEST_SEED=other-$$seed $(BIN)/python -m pytest --seeded --quiet --numprocesses 2 || exit 1; \
	done
	@for turn in 1 2 3; do \
		$(BIN)/python -m pytest --nightly --properties --quiet --numprocesses 2 || exit 1; \
	done

pictures: .venv/dev  ## draw the pictures of the documents again
	$(BIN)/python tools/draw_pictures.py
	$(BIN)/python -m tools.draw_answer
	$(BIN)/python -m tools.draw_attacks
	$(BIN)/python -m tools.draw_statistics

docs: .venv/dev  ## write the documents as a site that needs no network, into build/site
	$(BIN)/python -m tools.write_site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "the site is written: open build/site/index.html"

matrix:  ## install the wheel with each extra alone, and with what each page names, and use it
	$(PYTHON) tools/try_installs.py

tree:  ## print each layer with its modules and what they are for
	@$(PYTHON) tools/tree.py

clean:  ## remove what the other targets made
	rm -rf .venv $(ORACLE) $(PEERS) $(TUMULT) .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build demo-report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps. `core` is what users get; `dev` adds what tests need, pinned and with hashes.

.venv/core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("confide needs Python 3.11 or later")'
	@echo "installing confide into .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(INSTALL) --editable .
	@touch $@

.venv/dev: pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("confide needs Python 3.11 or later")'
	@echo "installing confide and what its tests need into .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(INSTALL) --require-hashes --requirement requirements-dev.txt
	@$(BIN)/python $(INSTALL) --no-deps --editable .
	@touch .venv/core $@

# The oracles have requirements that clash with ours, so they live apart and tests call them there.
$(ORACLE)/ready: requirements-oracle.txt
	@echo "installing the oracles into $(ORACLE)"
	@$(PYTHON) -m venv $(ORACLE)
	@$(ORACLE)/bin/python $(INSTALL) --require-hashes --requirement requirements-oracle.txt
	@touch $@

# So do libraries that would answer the same questions, which pin older versions of the oracles.
$(PEERS)/ready: requirements-peers.txt
	@echo "installing the peers into $(PEERS)"
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python $(INSTALL) --require-hashes --requirement requirements-peers.txt
	@touch $@

# Tumult pins an older Spark, which needs Java 17 or older.
$(TUMULT)/ready: requirements-tumult.txt
	@echo "installing Tumult into $(TUMULT)"
	@$(PYTHON) -m venv $(TUMULT)
	@$(TUMULT)/bin/python $(INSTALL) --require-hashes --requirement requirements-tumult.txt
	@touch $@

# All files of requirements are written here and nowhere else: names, versions, hashes, no
# addresses. uv.lock is a by-product and not kept.
UV := .venv-lock/bin/uv
ORACLES := opendp[polars]==0.16.* dp-accounting==0.6.* numpy>=2.4
TUMULT_NAMES := tmlt.analytics==0.21.*
# diffprivlib 0.6 does not import with scikit-learn 1.9.
PEER_NAMES := diffprivlib==0.6.* pipeline-dp==0.3.* smartnoise-sql==1.0.* scikit-learn<1.8
COMPILE := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --upgrade

$(UV):
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python $(INSTALL) uv

lock: $(UV)  ## renew the pinned requirements of tests and oracles
	$(UV) lock --quiet --upgrade
	$(UV) export --quiet --frozen --extra dev --no-emit-project --no-header \
		--output-file requirements-dev.txt
	printf '%s\n' $(foreach oracle,$(ORACLES),'$(oracle)') | $(UV) $(COMPILE) \
		--output-file requirements-oracle.txt -
	printf '%s\n' $(foreach peer,$(PEER_NAMES),'$(peer)') | $(UV) $(COMPILE) \
		--output-file requirements-peers.txt -
	printf '%s\n' $(foreach peer,$(TUMULT_NAMES),'$(peer)') | $(UV) $(COMPILE) \
		--output-file requirements-tumult.txt -
	! grep --extended-regexp '://|--(extra-)?index-url|--find-links' requirements-*.txt
