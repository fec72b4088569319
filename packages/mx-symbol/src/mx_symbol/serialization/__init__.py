# SPDX-License-Identifier: Apache-2.0
"""Symbols as JSON: MXNet's files of every version are read, and files are written that MXNet 1.x reads."""
