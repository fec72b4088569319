# SPDX-License-Identifier: Apache-2.0
"""What `bench_compile.py` runs: the graphs, and one program per framework that binds them."""
