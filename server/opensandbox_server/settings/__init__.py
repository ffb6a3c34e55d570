# SPDX-License-Identifier: Apache-2.0
"""What an operator can choose."""
