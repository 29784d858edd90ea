# Two commands matter: `make run` and `make test`. Both set up what they need.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

# Where it is set, each process would compile all that it imports, pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run demo-oauth test check fix reach agents bench bench-quick fault soak observe observe-test conformance clients config image deploy-test lint-deploy lint-tests lock mutate page release scale

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run ## serve a small JSON-RPC service and the gateway in front of it
	@$(BIN)/python -m gateway demo

demo-oauth: services ## a real authorization server, a service that wants tokens, and the gateway between them
	@$(BIN)/python -m tests.authorization.demo

# How tests start the program: fork, in forks of one process that has imported it, or exec, each for real. The tests
# read it in the environment: tests/conftest.py.
STARTS ?= fork
# In the order of the folders: the slow ones are first, and many small files of tests/unit fill both workers to the end.
PYTEST = STARTS=$(STARTS) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: ## all checks and all tests, against real services; STARTS=exec starts each program for real
	@bash tests/processor_time.sh $(MAKE) --no-print-directory checks-and-tests

.PHONY: checks-and-tests
checks-and-tests: check services
	$(PYTEST)

lint-tests: services ## all tests, and which cost most; fails where one costs over 10 s of processor time outside long_*.py
	$(PYTEST) --most-seconds 10

check: $(VENV)/.dev ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fix: $(VENV)/.dev ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

conformance: services ## the official conformance suite, for each revision of MCP
	$(BIN)/python -m lab.conformance

clients: services ## the official MCP clients and agent frameworks: what they do; ROWS="crewai" for rows with these words
	@bash tests/install.sh $(BIN)/python clients
	$(BIN)/python -m lab.clients $(ROWS)
	$(BIN)/python -m lab.clients.clean_install

reach: $(VENV)/.dev ## real services from their URL alone: what is understood, typed and called right; writes docs/reach.md's table
	@bash tests/install.sh $(BIN)/python reach
	$(BIN)/python -m lab.reach
	$(BIN)/python -m lab.reach.guest
	$(BIN)/python -m lab.reach.first_contact

agents: $(VENV)/.dev ## sixty questions of six real services: what search finds, and what errors teach; writes docs/agents.md's tables
	@bash tests/install.sh $(BIN)/python reach
	$(BIN)/python -m lab.agents

bench: bench-peers ## everybody who does the same work, beside the gateway; writes docs/performance.md (11 minutes)
	@bash tests/install.sh $(BIN)/python page
	$(BIN)/python -m lab.bench

bench-quick: bench-services ## the lanes that decide, and a guard against slower calls (2 minutes; writes nothing)
	$(BIN)/python -m lab.bench --quick

.PHONY: bench-services bench-peers
bench-peers: bench-services
	@$(BIN)/python -m lab.bench.peers

bench-services: $(VENV)/.dev
	@bash tests/install.sh bench

scale: bench-services ## what replicas need for 10 to a million callers, checked by real runs, and a failover of Redis; writes docs/capacity.md (5 minutes)
	$(BIN)/python -m lab.scale

fault: services ## what callers see while something fails; ROWS="one tool" for rows with these words
	@bash tests/install.sh $(BIN)/python fault
	$(BIN)/python -m lab.fault $(ROWS)

MINUTES ?= 10
SEED ?= 20261121
REPLICAS ?= 1
soak: $(VENV)/.dev ## mixed traffic for ten minutes while one thing after the other fails; MINUTES=2 for fewer; REPLICAS=2
	$(BIN)/python -m lab.soak --minutes $(MINUTES) --seed $(SEED) --replicas $(REPLICAS)

MUTANTS ?= 200
WORKERS ?= 1
mutate: $(VENV)/.dev ## break the gateway in 200 places and say which no test notices; FILES="gateway/store/*.py" MUTANTS=20 WORKERS=2 (two hours)
	$(BIN)/python -m lab.mutate --mutants $(MUTANTS) --seed $(SEED) --workers $(WORKERS) $(if $(FILES),--files $(FILES)) \
		$(if $(TESTS),--tests $(TESTS)) $(if $(MAP),--map $(MAP)) $(if $(REPLAY),--replay $(REPLAY) --verdicts $(VERDICTS))

observe-test: observe-services ## cause each failure, and see its alert arrive at Alertmanager once (4 minutes); ALERT="store" for some
	$(BIN)/python -m lab.observe $(ALERT)

FACTOR ?= 1
observe: observe-services ## a gateway with Prometheus and Alertmanager, to look at; FACTOR=60 makes a minute of the rules a second
	@$(BIN)/python -m lab.observe.show $(FACTOR)

.PHONY: observe-services
observe-services: $(VENV)/.dev
	@bash tests/install.sh observe

page: $(VENV)/.dev ## first paint and size of the pages, and their pictures for docs/page (1 minute)
	@bash tests/install.sh $(BIN)/python page
	$(BIN)/python -m lab.page

image: $(VENV)/.dev ## build the container image twice, look into it, and run it (2 minutes)
	@bash tests/install.sh $(BIN)/python image
	$(BIN)/python -m lab.image

release: $(VENV)/.dev ## wheel, sdist, image, bill of materials and checksums in dist/, tried in fresh environments; URL=https://…; IMAGE=no; BASE=…@sha256:… (8 minutes)
	@IMAGE=$(IMAGE) bash tests/install.sh $(BIN)/python release
	$(BIN)/python -m lab.release $(if $(URL),--url $(URL)) $(if $(BASE),--base '$(BASE)') $(if $(filter no,$(IMAGE)),--no-image)

deploy-test: services ## the twelve-service overlay as processes: changed, rolled, killed, and with an older version (6 minutes)
	$(BIN)/python -m lab.deploy

lint-deploy: $(VENV)/.dev ## what hadolint and checkov say of deploy/, and whether every two components combine (2 minutes)
	@bash tests/install.sh $(BIN)/python lint
	$(BIN)/python -m lab.lint
	CASES=all $(BIN)/python -m pytest tests/unit/test_components.py

lock: $(VENV)/.dev ## resolve what the image installs: newest versions, with hashes
	@bash tests/install.sh $(BIN)/python image
	$(BIN)/python -m lab.image.lock

config: $(VENV)/.run ## write the files and tables that derive from gateway/settings/, errors.py, the dialects and the modes of credentials
	$(BIN)/python -m gateway schema --format yaml > config/gateway.yaml
	$(BIN)/python -m gateway schema --format json > config/gateway.schema.json
	$(BIN)/python -m gateway schema --format methods > config/methods.schema.json
	$(BIN)/python -m tests.reference_pages
	$(BIN)/python -m tests.error_table
	$(BIN)/python -m tests.monitoring
	$(BIN)/python -m tests.log_page
	$(BIN)/python -m tests.metrics_table
	$(BIN)/python -m tests.runbooks
	cp config/gateway.yaml deploy/kubernetes/base/gateway.yaml

.PHONY: services
services: $(VENV)/.dev
	@bash tests/install.sh $(BIN)/python

# Stamps: a change of the dependencies installs them anew.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	@echo "installing the gateway into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing the gateway and what its tests need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

$(BIN)/python:
	@bash tests/venv.sh $(PYTHON) $(VENV)
