# SPDX-License-Identifier: Apache-2.0
"""Storage types of values, as messages of stores of several processes number them."""

from __future__ import annotations

#: numbers of MXNet's storage types
DEFAULT, ROW_SPARSE, CSR = 0, 1, 2
_NAMES = {DEFAULT: "default", ROW_SPARSE: "row_sparse", CSR: "csr"}


def name_of(storage: int) -> str | None:
    """The name of a number, such as `row_sparse`; None if it has none."""
    return _NAMES.get(storage)
