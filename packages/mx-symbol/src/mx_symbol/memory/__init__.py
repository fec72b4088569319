# SPDX-License-Identifier: Apache-2.0
"""The schedule of a program: the order of its nodes, where their values lie, and what runs side by side."""
