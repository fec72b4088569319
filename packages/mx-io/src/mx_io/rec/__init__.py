# SPDX-License-Identifier: Apache-2.0
"""Looking at record files, and mending damaged ones; the command `mx rec`."""

from mx_io.rec.files import Check, Statistics, check, repair, statistics

__all__ = ["Check", "Statistics", "check", "repair", "statistics"]
