# SPDX-License-Identifier: Apache-2.0
"""Known networks, and where their parameters are looked for."""

from mx_gluon.model_zoo import model_store, vision

__all__ = ["model_store", "vision"]
