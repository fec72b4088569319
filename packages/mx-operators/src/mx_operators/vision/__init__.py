# SPDX-License-Identifier: Apache-2.0
"""Operators on images and feature maps."""
