# SPDX-License-Identifier: Apache-2.0
#
# Every target installs what it needs first (scripts/setup), so each works on a fresh clone.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-build setup-run quickstart test check bench build serve images clean

TOOLS   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/opensandbox/tools
VERSION := $(shell cat VERSION)
PORT    ?= 8080
RUNTIME ?= oci

# Tools that setup had to install come first; Go never fetches another toolchain by itself.
export PATH := $(TOOLS)/bin:$(PATH)
export GOTOOLCHAIN := local

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## Install what checks and tests need (Debian and Ubuntu), once
	@scripts/setup dev

setup-build:
	@scripts/setup build

setup-run:
	@scripts/setup run

quickstart: setup-run build ## Start a server, run commands and code in a sandbox, clean up
	@.venv/bin/python scripts/quickstart.py

test: setup build ## Run every test: Go with the race detector, fuzzing for a bounded time, Python
	@scripts/test

check: setup build ## Check formatting, lint, types, the specification and the docs
	@scripts/check

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

images: setup build ## Build every image there is a recipe for, with Docker too, and use each for its purpose
	@.venv/bin/python -m pytest -q tests/images/build.py tests/images/code_interpreter.py tests/images/docker.py

clean: ## Remove what make has built; caches outside the clone stay
	rm -rf build .venv uv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis
