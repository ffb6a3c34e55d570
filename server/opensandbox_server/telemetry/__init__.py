# SPDX-License-Identifier: Apache-2.0
"""What can be seen of a running server: metrics, traces, logs, stalls of its event loop."""
