# SPDX-License-Identifier: Apache-2.0
"""`mx.checkpoint`: a training that is killed at any moment goes on where it was."""

from typing import TYPE_CHECKING

from mx_core.imports import lazy as _lazy

if TYPE_CHECKING:
    from mx_train.checkpoint.training import Training as Training

__getattr__, __dir__, __all__ = _lazy(__name__, {"mx_train.checkpoint.training": ["Training"]})
