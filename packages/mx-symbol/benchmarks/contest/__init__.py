# SPDX-License-Identifier: Apache-2.0
"""The same network on the same weights in other frameworks, measured in turns.

One process per framework, so that their threads, allocators and OpenMP runtimes do not meet; only one of
them works at a time. A framework that is not installed takes no part.

Nothing is imported here: the other processes have only what their framework needs.
"""
