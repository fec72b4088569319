# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: one place of the code is changed, and the tests that cover it must fail.

`python -m tools.mutation` samples packages by a seed. Python is changed by the operators of cosmic-ray,
C++ by a table of its own. `tests/mutants.toml` holds the mutants that were judged to behave like the original.
"""
