# SPDX-License-Identifier: Apache-2.0
"""Operators of MXNet's `contrib` namespace."""
