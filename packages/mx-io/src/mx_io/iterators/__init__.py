# SPDX-License-Identifier: Apache-2.0
"""Data iterators; `mx_io.io` is where users find them."""
