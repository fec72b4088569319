# SPDX-License-Identifier: Apache-2.0
"""Image transformations and resizing."""
