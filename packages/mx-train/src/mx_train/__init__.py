# SPDX-License-Identifier: Apache-2.0
"""The training front end: Module, optimizers, metrics, initializers, schedules, callbacks."""

__version__ = "0.1.0"
