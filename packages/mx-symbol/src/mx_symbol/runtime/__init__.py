# SPDX-License-Identifier: Apache-2.0
"""Execution of graphs: native programs, executors on one device and on several, and CachedOp."""
