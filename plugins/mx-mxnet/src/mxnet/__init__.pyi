# SPDX-License-Identifier: Apache-2.0
from mx import *  # noqa: F403

__version__: str
