# SPDX-License-Identifier: Apache-2.0
"""Moved to tests/harness; here for tests that are being changed elsewhere at the same time."""

from tests.harness.wait import PATIENCE as PATIENCE
