# SPDX-License-Identifier: Apache-2.0
"""Modules: symbols that train."""

from mx_train.module.base_module import BaseModule as BaseModule
from mx_train.module.bucketing_module import BucketingModule as BucketingModule
from mx_train.module.module import Module as Module
from mx_train.module.python_module import PythonLossModule as PythonLossModule
from mx_train.module.python_module import PythonModule as PythonModule
from mx_train.module.sequential_module import SequentialModule as SequentialModule
