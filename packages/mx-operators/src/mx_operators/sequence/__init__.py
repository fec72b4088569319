# SPDX-License-Identifier: Apache-2.0
"""Operators on padded batches of sequences."""
