# SPDX-License-Identifier: Apache-2.0
"""One file for each command, or group of commands. The client is imported when one runs."""
