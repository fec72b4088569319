# SPDX-License-Identifier: Apache-2.0
"""Errors of Gluon, each also of the kind that programs written for MXNet catch."""

from __future__ import annotations

import multiprocessing

from mx_core.errors import ArgumentError, MXNetError


class DeferredInitializationError(MXNetError):
    """A parameter has no values yet, since its shape is known only after the first batch."""


class RefusedError(ArgumentError, AssertionError):
    """An argument is wrong, where MXNet asserts that it is right: programs catch AssertionError."""


class StaleGradientError(MXNetError, UserWarning):
    """A gradient was not computed since the last step. MXNet raises UserWarning."""


class WorkerError(MXNetError, RuntimeError):
    """A process that made batches has died, or an exception of its cannot be brought here."""


class WorkerTimeoutError(WorkerError, TimeoutError, multiprocessing.TimeoutError):
    """No batch came in time. MXNet raises that of `multiprocessing`."""
