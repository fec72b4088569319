# SPDX-License-Identifier: Apache-2.0
"""What the repository does with itself: its distributions, their wheels, its benchmarks.

`noxfile.py` calls it. It is part of no wheel.
"""
