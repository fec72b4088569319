# SPDX-License-Identifier: Apache-2.0
"""Hook implementations of mx-storage."""
