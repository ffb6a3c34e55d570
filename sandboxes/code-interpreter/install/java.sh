#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# java.sh VERSION…: JDKs of Debian, and the C compiler that Go needs.
. install/versions.sh
jdks=
for version in "$@"; do jdks="$jdks openjdk-$version-jdk-headless"; done
# shellcheck disable=SC2086 # a list
sh "$packages" gcc libc6-dev $jdks
for version in "$@"; do
    ln -s "/usr/lib/jvm/java-$version-openjdk-$(dpkg --print-architecture)" "$(place_of java "$version")"
done
