# SPDX-License-Identifier: Apache-2.0
"""What holds for every test, wherever it is."""

import signal

pytest_plugins = ["tests.costs", "tests.order"]

# A script's background jobs ignore Ctrl-C, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
