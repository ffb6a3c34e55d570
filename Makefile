# SPDX-License-Identifier: Apache-2.0
#
# Every target installs what it needs first (scripts/setup), so each works on a fresh clone.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup setup-build quickstart test check bench build serve images clean

TOOLS   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/opensandbox/tools
VERSION := $(shell cat VERSION)
PORT    ?= 44772

# Tools that setup had to install come first; Go never fetches another toolchain by itself.
export PATH := $(TOOLS)/bin:$(PATH)
export GOTOOLCHAIN := local

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## Install what checks and tests need (Debian and Ubuntu), once
	@scripts/setup dev

setup-build:
	@scripts/setup build

quickstart: build ## Build execd, start it and show what it does, in seconds
	@python3=$$(scripts/setup python) && "$$python3" scripts/quickstart.py

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

serve: build ## Run execd in the foreground on 127.0.0.1:PORT (the server comes with a later part)
	@echo "execd on http://127.0.0.1:$(PORT), without a token; commands run on this machine as $$(id -un). Ctrl-C ends it."
	@exec build/execd --listen tcp://127.0.0.1:$(PORT)

images: ## Build sandbox images (none exist yet)
	@echo "There are no images yet: the first one, code-interpreter, comes with code contexts."

clean: ## Remove what make has built; caches outside the clone stay
	rm -rf build .venv uv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis
