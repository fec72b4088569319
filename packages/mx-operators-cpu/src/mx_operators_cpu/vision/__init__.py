# SPDX-License-Identifier: Apache-2.0
"""Boxes, regions of interest, samplers, correlation."""
