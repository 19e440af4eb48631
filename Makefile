# Every target sets up what it needs: a virtual environment in .venv with the pinned dependencies of
# what users run, and for tests with those of development.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
DEV := .venv/dev
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes

# Compiled modules are kept: otherwise every process of the tests compiles all of them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check pure test long compiled demo docs bench scale soak label-studio phoenix integrations lint lock audit sbom clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## make .venv with the pinned dependencies

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "sbic needs Python 3.11 or later; name one with: make PYTHON=/path/to/python3 ..."; exit 1; }
	@echo "Setting up .venv (once) ..."
	@$(PYTHON) -m venv --clear .venv
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >.venv/uv.lock
	@$(PIP) -r .venv/uv.lock
	@$(UV) -r requirements.lock || $(PIP) -r requirements.lock # pip has settings that uv does not read
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(READY) requirements-dev.lock
	@$(UV) -r requirements-dev.lock || $(PIP) -r requirements-dev.lock
	@touch $@

lint: $(DEV) ## formatting, lint and types
	@$(BIN)/ruff format --check --quiet . || { echo "formatting: run .venv/bin/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

check: compiled ## lint, types and the tests without Kafka, on fewer examples: a minute
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint pure

pure: $(DEV)
	@$(BIN)/pytest --quiet --numprocesses 2 --dist worksteal -m "not broker and not figures and not long"

# Three processes keep two cores busy: much of the time a test waits for Kafka.
test: $(DEV) ## lint, types and all tests but those that take long
	@$(MAKE) --no-print-directory --jobs 3 compiled lint .venv/tools
	@$(BIN)/pytest --numprocesses 3 --dist worksteal -m "not long"

long: compiled $(DEV) .venv/tools ## the tests that take long: three brokers, the paper's figures, each right
	@$(BIN)/pytest --numprocesses 2 --dist worksteal -m long

# Compiles ahead what every process of the tests would otherwise compile for itself.
compiled: $(READY)
	@$(BIN)/python -m sbic.commands.warm_up

# Some tests need kcat, Prometheus, Chromium, PostgreSQL, Kafka's console tools and Connect's converter;
# where they cannot be had, these tests say so and are skipped.
.venv/tools: $(DEV) Makefile tests/agents/kafka_tools.py tests/sink/converter.py
	@{ command -v kcat && command -v promtool && command -v chromedriver && \
	  ls /usr/lib/postgresql/*/bin/initdb || { \
	  test -e /etc/debian_version && test "$$(id -u)" = 0 && apt-get update && \
	  for package in kafkacat prometheus chromium chromium-driver postgresql; do \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$package; \
	  done; \
	}; } >/dev/null 2>&1 || true
	@$(BIN)/python -m tests.agents.kafka_tools >/dev/null 2>&1 || true
	@$(BIN)/python -m tests.sink.converter >/dev/null 2>&1 || true
	@touch $@

demo: $(READY) ## the whole pipeline on an embedded Kafka, with a simulated crowd
	@$(BIN)/sbic demo

docs: $(DEV) ## write docs/reference from the code
	@$(BIN)/python -m tests.docs.generate

bench: $(DEV) ## measure speed, as ratios within one run
	@$(BIN)/python -m tests.benchmarks

scale: $(DEV) ## measure 1,000,000 and 10,000,000 labels, recovery and four instances; takes long
	@$(BIN)/python -m tests.benchmarks.scale

soak: $(DEV) ## kill, stall and restart at random for SOAK_MINUTES (10), then count again
	@$(BIN)/python -m tests.soak

label-studio: compiled $(DEV) .venv-label-studio/ready ## the tests against a real Label Studio, which takes minutes to install and start
	@LABEL_STUDIO=$(CURDIR)/.venv-label-studio/bin/label-studio $(BIN)/pytest tests/label_studio

.venv-label-studio/ready: $(READY) Makefile
	@echo "Installing Label Studio in .venv-label-studio (once) ..."
	@$(PYTHON) -m venv --clear .venv-label-studio
	@$(BIN)/uv pip install --quiet --python .venv-label-studio/bin/python label-studio==1.23.2
	@touch $@

phoenix: compiled $(DEV) .venv-phoenix/ready ## the tests against a real Arize Phoenix
	@PHOENIX=$(CURDIR)/.venv-phoenix/bin/phoenix $(BIN)/pytest tests/phoenix

.venv-phoenix/ready: $(READY) Makefile
	@echo "Installing Arize Phoenix in .venv-phoenix (once) ..."
	@$(PYTHON) -m venv --clear .venv-phoenix
	@$(BIN)/uv pip install --quiet --python .venv-phoenix/bin/python arize-phoenix==20.26.1
	@touch $@

integrations: compiled .venv-integrations/ready .venv-inspect/ready ## the tests with crowd-kit, scikit-learn, statsmodels, krippendorff, polars, pyarrow and inspect_ai
	@.venv-integrations/bin/python -m pytest tests/inference/test_frames.py tests/inference/test_crowd_kit.py tests/inference/test_agreement.py
	@.venv-inspect/bin/python -m pytest tests/inference/test_inspect_ai.py

.venv-integrations/ready: $(READY) Makefile
	@echo "Installing crowd-kit, scikit-learn, statsmodels, krippendorff, polars and pyarrow in .venv-integrations (once) ..."
	@$(PYTHON) -m venv --clear .venv-integrations
	@$(BIN)/uv pip install --quiet --python .venv-integrations/bin/python --require-hashes -r requirements-dev.lock
	@$(BIN)/uv pip install --quiet --python .venv-integrations/bin/python --constraint requirements-dev.lock \
	  crowd-kit==1.4.2 scikit-learn==1.9.1 statsmodels==0.15.0 krippendorff==0.9.0 polars==2.1.0 pyarrow==26.0.1
	@touch $@

# With dependencies of its own: what it needs does not go with what is pinned.
.venv-inspect/ready: $(READY) Makefile
	@echo "Installing inspect_ai in .venv-inspect (once) ..."
	@$(PYTHON) -m venv --clear .venv-inspect
	@$(BIN)/uv pip install --quiet --python .venv-inspect/bin/python --editable '.[embedded,inspect]' \
	  $(TESTING) inspect-ai==0.3.285
	@touch $@

# What the configuration of pytest needs, at the versions that are pinned.
TESTING = $$(grep -ohE '^(pytest|pytest-asyncio|pytest-timeout|hypothesis|trustme)==[^ ;]+' requirements-dev.lock)

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header

# All extras but `inspect`, whose package brings 80 others: `make integrations` installs it.
EXTRAS := $(patsubst %,--extra %,embedded frames otel parquet postgres research)

lock: $(READY) ## pin the newest allowed dependencies, with hashes
	@$(COMPILE) $(EXTRAS) --group setup --output-file requirements.lock pyproject.toml
	@$(COMPILE) $(EXTRAS) --group setup --group dev --constraint requirements.lock \
	  $$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock) \
	  --output-file requirements-dev.lock pyproject.toml
	@sed -i -e '1i -r requirements.lock' -e '/^# The following/,$$d' requirements-dev.lock
	@echo hatchling | $(COMPILE) --no-annotate --constraint requirements.lock \
	  --output-file deploy/requirements.lock pyproject.toml -

audit: $(READY) ## look for known weaknesses in what is pinned; asks pypi.org and osv.dev
	@$(BIN)/uv tool run --quiet pip-audit@2.10.1 --strict --require-hashes --disable-pip --requirement requirements-dev.lock

sbom: $(READY) ## what the image has in it, as CycloneDX: sbom.json
	@$(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py requirements deploy/requirements.lock --output-file sbom.json
	@echo sbom.json

clean: ## remove .venv
	rm -rf .venv
