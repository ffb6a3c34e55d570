#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the image base of a minimal Debian.
set -eu
here=$(dirname "$0")

install -m 644 "$here/dpkg.cfg" /etc/dpkg/dpkg.cfg.d/opensandbox
# What was there before that file. Directories stay: packages put links into them.
find /usr/share/man /usr/share/info /usr/share/locale -type f -delete
find /usr/share/doc -type f ! -name copyright -delete

sh "$here/add-packages.sh" \
    bash ca-certificates curl git less openssh-client procps python3 unzip xz-utils

# A login shell keeps the PATH of its sandbox.
sed -i '/^if \[ "$(id -u)" -eq 0 \]/,/^fi/d; /^export PATH$/d' /etc/profile
mkdir -p /workspace
