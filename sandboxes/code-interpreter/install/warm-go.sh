#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds a program and a plugin that import what there is, so that the cache has it: the first cell
# would otherwise build the standard library.
set -eu
export CGO_ENABLED=1 GOTOOLCHAIN=local GOFLAGS= GOWORK=off HOME="${HOME:-/root}"
work=$(mktemp -d)
cd "$work"
go mod init cells 2>/dev/null
{
    echo 'package main'
    go list std | grep -v -E '(^|/)(internal|vendor|builtin)(/|$)' | sed 's/.*/import _ "&"/'
    echo 'func main() {}'
} >all.go
go build -o program .
go build -buildmode=plugin -o plugin.so .
cd /
rm -rf "$work"
