# SPDX-License-Identifier: Apache-2.0
"""What `bench_train.py` runs: the networks, and the program that takes their steps in one framework."""
