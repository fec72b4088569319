# SPDX-License-Identifier: Apache-2.0
"""The command `mx`: the group in `group.py`, and one module for each of mx-core's own subcommands."""

from mx_core.cli.group import cli, main

__all__ = ["cli", "main"]
