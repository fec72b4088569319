# SPDX-License-Identifier: Apache-2.0
"""Outcomes 0, 1, 2 and so on along a new axis."""

from __future__ import annotations

from mx_gluon.probability.values import Value, namespace


def stacked(zeros: Value, count: int) -> Value:
    """0 to count - 1 along a new first axis, each in the shape of the zeros."""
    return Value(namespace(zeros.raw).stack(*[(zeros + k).raw for k in range(count)], axis=0))
