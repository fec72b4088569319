# SPDX-License-Identifier: Apache-2.0
"""Operators of networks that never became part of MXNet's core set."""
