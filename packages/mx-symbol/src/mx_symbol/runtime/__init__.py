# SPDX-License-Identifier: Apache-2.0
"""What runs a graph: native programs, executors on one device and on several, and CachedOp."""
