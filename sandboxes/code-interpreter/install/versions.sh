# SPDX-License-Identifier: Apache-2.0
#
# For the other scripts here: where versions of a language are, and how packages of PyPI get there.
# execd looks for them below the same directory (dataplane/cmd/execd/versions.go).
set -eu
versions=/opt/opensandbox/versions
packages=/usr/share/opensandbox/base/add-packages.sh
export PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1

# place_of LANGUAGE VERSION: makes room for a version and prints its directory. The first is the default.
place_of() {
    mkdir -p "$versions/$1"
    [ -e "$versions/$1/default" ] || [ -L "$versions/$1/default" ] || ln -s "$2" "$versions/$1/default"
    echo "$versions/$1/$2"
}

# fetch FILE DIRECTORY: packages of PyPI, which must have the checksums that the file says.
fetch() {
    python3 -m pip install --quiet --require-hashes --only-binary :all: --no-deps --no-compile \
        --target "$2" --requirement "$1"
}
