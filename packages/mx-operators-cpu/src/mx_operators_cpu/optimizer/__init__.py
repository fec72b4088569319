# SPDX-License-Identifier: Apache-2.0
"""Optimizer updates: SGD, Adam, AdamW, LAMB, LARS and others."""
