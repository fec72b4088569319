# SPDX-License-Identifier: Apache-2.0
"""Recurrent stacks and their prepacked weights."""
