# SPDX-License-Identifier: Apache-2.0
"""GroupNorm."""

from __future__ import annotations

from mx_core.operator import opt
from mx_operators.nn.norm.grouped import GroupedNorm, GroupedNormParam


class GroupNormParam(GroupedNormParam, leading=True):
    """Groups and constant."""

    num_groups: int = opt(1, "groups of channels normalised together", lower=1)
    eps: float = opt(1e-5, "added to the variance", lower=0.0)
    output_mean_var: bool = opt(False, "show mean and standard deviation as outputs")


class GroupNorm(GroupedNorm[GroupNormParam]):
    """Groups of channels of each example normalised together; one gamma and beta per group,
    as in MXNet 1.x.

    Source: Wu and He, Group Normalization, ECCV 2018.
    """

    name = "GroupNorm"
    floating_only = True

    def groups(self, p: GroupNormParam, channels: int) -> int:
        """num_groups."""
        return p.num_groups

    def num_visible_outputs(self, p: GroupNormParam) -> int:
        """Statistics are hidden unless asked for."""
        return 3 if p.output_mean_var else 1
