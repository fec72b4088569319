# SPDX-License-Identifier: Apache-2.0
"""The same network on the same weights in several frameworks, measured in turns.

One process per framework, so that their threads, allocators and OpenMP runtimes do not meet; only one of
them works at a time. A framework that is not installed takes no part.
"""

from contest.graph_file import Task, write_task
from contest.rivals import Result, compete

__all__ = ["Result", "Task", "compete", "write_task"]
