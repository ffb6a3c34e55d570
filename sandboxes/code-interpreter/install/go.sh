#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# go.sh VERSION…: Go, with what the first cell would otherwise have to build in its cache.
. install/versions.sh
export CGO_ENABLED=1 GOTOOLCHAIN=local GOFLAGS= GOWORK=off GOPATH=/tmp/go

# warm_cache GO: builds the standard library in both ways that code contexts need it.
warm_cache() {
    work=$(mktemp -d)
    cp -R warm "$work"
    (cd "$work/warm" && "$1" mod init cells 2>/dev/null &&
        "$1" build -o "$work/program" ./program && "$1" build -buildmode=plugin -o "$work/cell.so" ./cell)
    rm -rf "$work"
}

for version in "$@"; do
    draft=$(mktemp -d)
    fetch "requirements/go-$version.txt" "$draft"
    home=$(place_of go "$version")
    mv "$draft/go" "$home"
    rm -rf "$draft" "$home/api" "$home/misc" "$home/test"
    find "$home/src" \( -name testdata -prune -o -name '*_test.go' \) -exec rm -rf {} +
    warm_cache "$home/bin/go"
done
# Go throws away what was not used for five days, also when the image is as old as that.
find "$(go env GOCACHE)" -type f -exec touch -d 2100-01-01 {} +
