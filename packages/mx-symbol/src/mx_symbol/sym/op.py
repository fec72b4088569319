# SPDX-License-Identifier: Apache-2.0
"""Functions of the operators in the namespace `sym.op`, made when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mx_symbol.symbol.namespaces import find, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from mx_symbol.symbol import Symbol

    def __getattr__(name: str) -> Callable[..., Symbol]: ...

else:

    def __getattr__(name: str) -> Any:
        return find(__name__, "op", name)


def __dir__() -> list[str]:
    return names("op")
