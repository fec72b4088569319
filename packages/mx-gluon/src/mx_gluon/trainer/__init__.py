# SPDX-License-Identifier: Apache-2.0
"""Trainer: steps of an optimizer on parameters, on one or several contexts."""

from mx_gluon.trainer.trainer import Trainer as Trainer
