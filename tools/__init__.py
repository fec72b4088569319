# SPDX-License-Identifier: Apache-2.0
"""Tools of the repository: its distributions, their wheels, its benchmarks.

`noxfile.py` calls it. It is part of no wheel.
"""
