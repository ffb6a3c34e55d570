# SPDX-License-Identifier: Apache-2.0
#
# Every target installs what it needs first (scripts/setup), so each works on a fresh clone.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-build setup-run setup-cluster quickstart test test-fast fuzz check audit bench build serve packages images clean
.PHONY: cluster cluster-stop cluster-image cluster-load cluster-test
.PHONY: setup-vm vm vm-test vm-test-short

TOOLS   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/opensandbox/tools
VERSION := $(shell cat VERSION)
PORT    ?= 8080
RUNTIME ?= oci

# Tools that setup had to install come first; Go never fetches another toolchain by itself.
export PATH := $(TOOLS)/bin:$(PATH)
export GOTOOLCHAIN := local

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## Install what checks and tests need (Debian and Ubuntu), once
	@scripts/setup dev

setup-build:
	@scripts/setup build

setup-run:
	@scripts/setup run

setup-cluster:
	@scripts/setup cluster

setup-vm:
	@scripts/setup vm

quickstart: setup-run build ## Start a server, run commands and code in a sandbox, clean up
	@.venv/bin/python scripts/quickstart.py

test: setup setup-run build ## Run every test: Go with the race detector, and Python beside it
	@scripts/test

test-fast: setup setup-run build ## Run what takes less than three minutes, for work in progress
	@scripts/test fast

fuzz: setup-build ## Fuzz every parser of Go for FUZZTIME each (default 5s)
	@mkdir -p build && scripts/fuzz

check: setup build ## Check formatting, lint, types, the specification and the docs
	@scripts/check

audit: setup ## Ask the public databases about vulnerabilities of what we build with; needs the internet
	@scripts/audit

bench: setup-build build ## Measure execd against the plain alternative; writes build/bench.json
	@python3=$$(scripts/setup python) && "$$python3" benchmarks/run.py

# Static and without cgo: execd must run in any image, whatever C library it has or lacks.
build: setup-build ## Build the Go programs into build/
	@mkdir -p build && echo "build: Go programs into build/ (version $(VERSION))"
	@cd dataplane && CGO_ENABLED=0 go build -trimpath -buildvcs=false \
		-ldflags '-s -w -X main.version=$(VERSION)' -o ../build/ ./cmd/...

# make serve PORT=8080 API_KEY=secret DATA=~/sandboxes RUNTIME=oci
serve: setup-run build ## Run a server in the foreground until Ctrl-C: PORT, API_KEY, DATA, RUNTIME
	@exec env $(if $(API_KEY),OPENSANDBOX_SERVER_API_KEY='$(API_KEY)') .venv/bin/opensandbox-server \
		--port $(PORT) --runtime $(RUNTIME) $(if $(DATA),--data-dir '$(DATA)')

packages: setup setup-run build ## Use the wheels in empty environments, upgrade from releases, try the benchmarks
	@.venv/bin/python -m pytest -q tests/wheels/wheels.py tests/benchmarks/quick.py tests/stored/upgrade.py

images: setup build ## Build every image there is a recipe for, with Docker too, and use each for its purpose
	@.venv/bin/python -m pytest -q tests/images/build.py tests/images/code_interpreter.py tests/images/docker.py

# make cluster NODES=2; a cluster keeps its files in build/cluster, or in CLUSTER_DIR
cluster: setup-cluster ## Start a real Kubernetes cluster on this machine, as root: NODES, BLOCK
	@.venv/bin/python -m tools.cluster start --nodes $(or $(NODES),1) $(if $(BLOCK),--block $(BLOCK))

cluster-stop: setup-cluster ## Stop that cluster; nothing of it stays
	@.venv/bin/python -m tools.cluster stop

cluster-image: setup-cluster ## Load an image into that cluster from a file: TAR
	@.venv/bin/python -m tools.cluster load-image '$(TAR)'

cluster-load: setup-cluster ## Fill that cluster with nodes and pods that only pretend: NODES, PODS
	@.venv/bin/python -m tools.cluster load --nodes='$(or $(NODES),100)' --pods='$(or $(PODS),1000)'

cluster-test: setup-cluster ## Start clusters, try them out, break them, stop them, look what is left
	@.venv/bin/python -m pytest -q -s tests/cluster/lifecycle.py tests/cluster/workloads.py

# make vm SUITE=trixie; the machine has no way to the Internet
vm: setup-vm build ## A Debian in a virtual machine with this clone in it, its console here: SUITE
	@.venv/bin/python -m tests.vm $(if $(SUITE),--suite=$(SUITE)) shell

vm-test: setup-vm build ## Run the tests of the embedded runtime on a machine like the users': SUITE
	@.venv/bin/python -m tests.vm $(if $(SUITE),--suite=$(SUITE)) test

vm-test-short: setup-vm build ## The same in minutes: doctor, quickstart and limits
	@.venv/bin/python -m tests.vm $(if $(SUITE),--suite=$(SUITE)) test --short

clean: ## Remove what make has built; caches outside the clone stay
	rm -rf build .venv uv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis
