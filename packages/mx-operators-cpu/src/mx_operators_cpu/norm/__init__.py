# SPDX-License-Identifier: Apache-2.0
"""BatchNorm, LayerNorm, GroupNorm, InstanceNorm, LRN, L2Normalization."""
