# SPDX-License-Identifier: Apache-2.0
"""The one public port: the program that serves it, its routes, addresses that lead there."""
