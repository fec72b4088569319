# SPDX-License-Identifier: Apache-2.0
"""Plug-in loader, registries, services, operator declarations and C interfaces of mx."""

from mx_core.build_info import __version__
from mx_core.build_info import get_include

__all__ = ["__version__", "get_include"]
