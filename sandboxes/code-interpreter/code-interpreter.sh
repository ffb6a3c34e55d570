#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The entrypoint: stays until it is told to end. Code contexts need no server here, execd starts
# interpreters when they are asked for.
trap 'kill $! 2>/dev/null; exit 0' TERM INT HUP
sleep infinity &
wait $!
