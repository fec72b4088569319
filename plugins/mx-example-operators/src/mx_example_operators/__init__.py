# SPDX-License-Identifier: Apache-2.0
"""A tested template of an operator plug-in."""

__version__ = "0.1.0"
