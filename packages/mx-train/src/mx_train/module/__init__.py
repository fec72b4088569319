# SPDX-License-Identifier: Apache-2.0
"""Modules: symbols that train."""

from mx_train.module.base_module import BaseModule as BaseModule
from mx_train.module.module import Module as Module
