.DEFAULT_GOAL := help

# Debian's own interpreter where there is one: a shim or an unoptimised build costs up to 1.8x.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) python3.11)
VENV := .venv
BIN := $(VENV)/bin
USABLE := $(VENV)/.usable
READY := $(VENV)/.ready
WORKERS ?= 3
SEED ?= 1
NODES ?= 3
ETCD ?= 3
NEMESIS ?= mixed
SECURE ?= yes
EXAMPLES ?= 200
SEEDS ?= 1000
HISTORY ?= 1000000
FROM ?= 0

.PHONY: help demo dev test contract fuzz check format docs site site-serve generate sim mutants chaos chaos-many chaos-mutants \
	containers ui ui-shots bench bench-smoke bench-overload bench-secure bench-peers bench-parts dist lock pin-images clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(USABLE) ## Start a node, run the example jobs, print their starts and lateness
	@$(BIN)/python examples/demo.py

dev: $(USABLE) ## Start a temporary node on http://127.0.0.1:7400
	@$(BIN)/rota dev

test: $(READY) programs ## Unit and contract tests, the tests of a whole node, and a little chaos
	$(BIN)/python -P -m pytest -n $(WORKERS)
	$(BIN)/python -P -m pytest tests/chaos/test_smoke.py -rs -o faulthandler_timeout=0

contract: $(READY) ## The API against its description, longer: make contract EXAMPLES=200 SEED=1
	CONTRACT_EXAMPLES=$(EXAMPLES) CONTRACT_SEED=$(SEED) \
	$(BIN)/python -P -m pytest tests/node/api/test_contract_of_api.py --timeout 3600

fuzz: $(READY) ## Strange requests against a node: make fuzz REQUESTS=100000 SEED=1
	FUZZ_REQUESTS=$(or $(REQUESTS),100000) FUZZ_SEED=$(SEED) \
	$(BIN)/python -P -m pytest tests/fuzz -s -o faulthandler_timeout=0

check: $(READY) ## Format, lint, types, import contracts, generated code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/python -P tools/generate_client.py --check

format: $(READY) ## Format files for `check`
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## Write the generated parts of docs/reference: api.md, parts of the others, job.schema.json; types of ui/
	PYTHONPATH=. $(BIN)/python -P -m tools.api_page docs/reference/api
	PYTHONPATH=. $(BIN)/python -P -m tools.metrics_page docs/reference/metrics.md
	PYTHONPATH=. $(BIN)/python -P -m tools.configuration_page docs/reference/configuration.md
	PYTHONPATH=. $(BIN)/python -P -m tools.job_page docs/reference/jobs.md
	$(BIN)/python -P tools/states_page.py
	PYTHONPATH=. $(BIN)/python -P -m tools.ui_types

site: $(READY) ## Build the documentation as a site, with search and llms.txt, in build/site
	PYTHONPATH=. $(BIN)/python -P -m tools.docs_site build/site

site-serve: site ## Serve the site on http://127.0.0.1:8000
	$(BIN)/python -P -m http.server --bind 127.0.0.1 --directory build/site 8000

generate: $(READY) ## Write client/client.py from client/async_client.py
	$(BIN)/python -P tools/generate_client.py

# The built files are committed, so that only those who change ui/ need Node.js and npm.
ui: ## Build the web page: ui/ into src/rota/node/web/files; needs npm
	npm --prefix ui ci --include=dev --no-audit --no-fund
	npm --prefix ui run check
	npm --prefix ui run build

ui-shots: $(READY) ## Write screenshots of each view of the web page to ui/shots; needs Chromium
	PYTHONPATH=src:tests $(BIN)/python -P -m support.web_shots ui/shots

sim: $(READY) ## Replication, then whole nodes (a tenth), under faults on virtual time: make sim SEEDS=1000 FROM=0
	PYTHONPATH=src:tests $(BIN)/python -P -m sim.protocol $(SEEDS) --from $(FROM) --workers $(WORKERS)
	PYTHONPATH=src:tests $(BIN)/python -P -m sim.cluster $$(( ($(SEEDS) + 9) / 10 )) --from $(FROM) --workers $(WORKERS)

mutants: $(READY) ## Break each rule of replication and of nodes and check that the simulation or a test fails
	$(BIN)/python -P tests/sim/mutants.py

# With ROUNDS a node alone is killed and restarted so often, else a cluster gets all kinds of faults.
chaos: PROGRAMS += cc:gcc cc:libc6-dev
# SECURE= leaves out keys and TLS.
chaos: $(READY) programs ## Break real nodes, and judge: make chaos MINUTES=10 SEED=1 NODES=3 ETCD=3 NEMESIS=mixed
	$(if $(ROUNDS),CHAOS_ROUNDS=$(ROUNDS) CHAOS_SEED=$(SEED) \
	$(BIN)/python -P -m pytest tests/chaos -m chaos -s --timeout 3600,\
	PYTHONPATH=src:tests $(BIN)/python -P -m chaos --minutes $(or $(MINUTES),10) --seed $(SEED) \
	--nodes $(NODES) --etcd $(ETCD) --nemesis $(NEMESIS) $(if $(SECURE),--secure))

# A published failure of another scheduler (https://github.com/dkron-io/dkron/issues/1828), here.
chaos-many: $(READY) programs ## 4,000 jobs that fire every 5 s, three nodes, one of them killed
	PYTHONPATH=src:tests $(BIN)/python -P -m chaos --minutes 1 --seed $(SEED) --nemesis kill --faults 1 --many 4000

chaos-mutants: $(READY) programs ## Break rules on real clusters and check that the judge reports it: MUTANTS="C5 C1"
	PYTHONPATH=src:tests $(BIN)/python -P tests/chaos/mutants.py $(MUTANTS)

containers: $(READY) engine ## The image and the Compose file on a real engine; minutes, as root
	$(BIN)/python -P -m pytest tests/containers -m containers -o faulthandler_timeout=0 --timeout 900

bench: NODES := 1,3
bench: ROUNDS := 1
bench: $(READY) programs ## Measure, an hour or two: make bench SCENARIO="bulk start" NODES=1,3 ROUNDS=3
	$(BIN)/python -m bench $(SCENARIO) --nodes $(NODES) --rounds $(ROUNDS) --history $(HISTORY)

bench-smoke: $(READY) programs ## Compare rota with a bare journal and link, to detect regressions; a minute
	$(BIN)/python -m bench.smoke

bench-overload: $(READY) programs ## Three nodes beside four busy loops for five minutes: no takeover, no missed fire
	$(BIN)/python -m bench.overload --minutes 5

bench-secure: $(READY) programs ## Nodes with keys and TLS between them beside open ones: the cost of both
	$(BIN)/python -m bench.secure

bench-peers: ROUNDS := 3
bench-peers: $(READY) programs ## Other schedulers beside rota in one run: make bench-peers PEERS="celery dramatiq"
	@tests/install-programs redis-server:redis-server
	$(BIN)/python -m bench.peers $(PEERS) --rounds $(ROUNDS)

bench-parts: $(READY) programs ## Measure parts of a node alone: stalls, executors, HTTP, replication, etcd, documents
	$(BIN)/python -m bench.parts.stalls
	$(BIN)/python -m bench.parts.python_tasks
	$(BIN)/python -m bench.parts.request_guard
	$(BIN)/python -m bench.parts.access
	$(BIN)/python -m bench.parts.http_api
	$(BIN)/python -m bench.parts.replication
	$(BIN)/python -m bench.parts.etcd
	$(BIN)/python -m bench.parts.shared_documents

dist: $(READY) ## Build sdist and wheel, then check the wheel holds every module
	rm -rf dist build
	$(BIN)/python -m build
	@git ls-files '*.py' | grep -E '^(core|ring|wire|storage|executor|client|node|testing)/' | sed 's,^,rota/,' | sort > dist/.want
	@$(BIN)/python -m zipfile -l dist/*.whl | awk '/\.py/{print $$1}' | grep -v '^rota/__init__' | sort > dist/.have
	diff dist/.want dist/.have

lock: $(READY) ## Pin every package with its hashes, for make and for the image: make lock UPGRADE=1
	$(BIN)/python lock-packages $(if $(UPGRADE),--upgrade)

# The digests are what the registry says now, so look at what changed before you commit it.
pin-images: ## Pin the images that deploy/docker names by their digests; needs Docker and the registries
	deploy/docker/pin-images

clean: ## Remove the virtual environment and everything built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Each as the program and Debian's package that it is in.
PROGRAMS := etcd:etcd-server openssl:openssl bwrap:bubblewrap haproxy:haproxy nginx:nginx-light \
	promtool:prometheus systemd-analyze:systemd dockerd:docker.io debootstrap:debootstrap busybox:busybox-static \
	iptables:iptables chromium:chromium slirp4netns:slirp4netns
ENGINE := dockerd:docker.io docker-compose:docker-compose debootstrap:debootstrap \
	busybox:busybox-static ip:iproute2 iptables:iptables unshare:util-linux

.PHONY: programs engine
programs:
	@tests/install-programs $(PROGRAMS)
engine:
	@tests/install-programs $(ENGINE)

# What users need: a tenth of what the developers' tools take. `make check` and the others add the rest.
$(USABLE): pyproject.toml deploy/docker/requirements.txt deploy/docker/build.txt
	@$(MAKE) --no-print-directory venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/docker/requirements.txt -r deploy/docker/build.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(READY): pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(USABLE)

.PHONY: venv
venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "rota needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "Python's venv module is missing: apt-get install python3-venv" >&2; \
		test "$$(id -u)" = 0 && apt-get update -q && apt-get install -qy python3-venv; }
	$(PYTHON) -m venv $(VENV)
