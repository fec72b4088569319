# SPDX-License-Identifier: Apache-2.0
"""InstanceNorm."""

from __future__ import annotations

from mx_operators.nn.norm.grouped import GroupedNorm, GroupedNormParam


class InstanceNorm(GroupedNorm[GroupedNormParam]):
    """Each channel of each example normalised by itself.

    Source: Ulyanov, Vedaldi and Lempitsky, Instance Normalization, 2016.
    """

    name = "InstanceNorm"
    floating_only = True

    def groups(self, p: GroupedNormParam, channels: int) -> int:
        """One channel a group."""
        return channels
