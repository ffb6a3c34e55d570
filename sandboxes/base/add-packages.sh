#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# add-packages.sh PACKAGE…: installs Debian's packages and leaves no lists or archives behind.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin
