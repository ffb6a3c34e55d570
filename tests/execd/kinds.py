# SPDX-License-Identifier: Apache-2.0
"""Which surroundings of the daemon a test needs."""

import os

import pytest

HAS_SEVERAL_USERS = os.geteuid() == 0
"""An ordinary user's throw-away root knows only one uid: its root."""

several_users = pytest.mark.parametrize(
    "kind", ["root", "busybox"] if HAS_SEVERAL_USERS else ["root"], indirect=True
)
"""For tests in which the daemon acts as somebody else."""
