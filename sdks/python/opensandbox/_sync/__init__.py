# SPDX-License-Identifier: Apache-2.0
"""The client for callers that do not await, made from the folder beside it."""
