#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Puts the entrypoint where published programs look for it.
. install/versions.sh
for place in /opt/opensandbox /opt/code-interpreter; do
    install -D -m 755 code-interpreter.sh "$place/code-interpreter.sh"
done
