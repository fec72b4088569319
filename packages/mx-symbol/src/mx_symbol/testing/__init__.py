# SPDX-License-Identifier: Apache-2.0
"""Graphs that tests, benchmarks and the documentation share."""
