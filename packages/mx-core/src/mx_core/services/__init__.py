# SPDX-License-Identifier: Apache-2.0
"""Services: the engine, storage managers, random resources and devices of this process.

Each is made by a plug-in (`selection`), chosen once, at the first question, and kept (`chosen`).
"""

from mx_core.services.chosen import Service, device, device_count, engine, made, random, reset, storage
from mx_core.services.selection import DEVICE_INSTALL

__all__ = [
    "DEVICE_INSTALL",
    "Service",
    "device",
    "device_count",
    "engine",
    "made",
    "random",
    "reset",
    "storage",
]
