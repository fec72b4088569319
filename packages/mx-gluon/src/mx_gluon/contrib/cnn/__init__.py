# SPDX-License-Identifier: Apache-2.0
"""Convolutions that MXNet calls experimental."""

from mx_gluon.contrib.cnn.deformable import DeformableConvolution, ModulatedDeformableConvolution

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]
