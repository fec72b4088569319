# SPDX-License-Identifier: Apache-2.0
"""Normalisation: over the axes of one example, over groups of channels, across neighbouring channels."""
