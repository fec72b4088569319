# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib`: experimental parts of MXNet's interface. mx has `amp`, automatic mixed precision."""

from __future__ import annotations

from mx_core.imports import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, ["amp"])
