#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# python.sh VERSION…: Pythons of Debian, each with the libraries in requirements/python.txt.
. install/versions.sh
for version in "$@"; do
    sh "$packages" "python$version" "python$version-venv"
    home=$(place_of python "$version")
    "/usr/bin/python$version" -m venv "$home"
    "$home/bin/python" -m pip install --quiet --require-hashes --only-binary :all: --no-compile \
        --requirement requirements/python.txt
    # The libraries' own tests take more room than most libraries.
    for library in pandas scipy sklearn; do
        find "$home"/lib/python3*/site-packages/$library -type d -name tests -prune -exec rm -rf {} +
    done
    "$home/bin/python" -m compileall -q -j 0 "$home/lib"
    # matplotlib looks for fonts once; the first plot in a sandbox must not.
    "$home/bin/python" -c 'import matplotlib.pyplot'
done
