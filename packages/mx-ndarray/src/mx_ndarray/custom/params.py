# SPDX-License-Identifier: Apache-2.0
"""Parameters of `Custom`: a name, and the arguments of the property's constructor, as text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Self

from mx_core.cached import cached_property
from mx_core.errors import ArgumentError
from mx_core.operator import Params, required
from mx_ndarray.custom.property import CustomOpProp, registered

_serial = itertools.count()
#: how many positional inputs a caller gave; the property says how many there are
COUNT = "num_args"


class CustomParams(Params):
    """Instances are unique: two custom operators are never the same, even with equal parameters.

    Attributes
    ----------
    rest : the constructor's arguments
    prop : the property made with them
    """

    op_type: str = required("name given to mx.operator.register; other arguments go to its constructor")
    rest: dict[str, str]
    prop: CustomOpProp
    serial: int

    def _assign(self, values: Mapping[str, Any], op: str, node: str | None = None) -> None:
        super()._assign({k: v for k, v in values.items() if k == "op_type"}, op, node)
        rest = {k: str(v) for k, v in values.items() if k not in ("op_type", COUNT)}
        make: Callable[..., Any] = registered(self.op_type)
        made = make(**rest)
        if not isinstance(made, CustomOpProp):
            raise ArgumentError(f"[{op}] {self.op_type!r}: expected a CustomOpProp, got {made!r}")
        names = [*made.list_arguments(), *made.list_outputs(), *made.list_auxiliary_states()]
        if len(set(names)) != len(names):
            raise ArgumentError(f"[{op}] {self.op_type!r}: two of {', '.join(names)} have one name")
        self._hold(rest=rest, prop=made, serial=next(_serial))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Distinct for every instance."""
        return (self.op_type, self.serial)

    def replace(self, **changes: Any) -> Self:
        """A copy with some arguments changed."""
        return type(self).parse({"op_type": self.op_type, **self.rest, **changes})

    def attrs(self) -> dict[str, str]:
        """The name and the constructor's arguments, as symbol files hold them."""
        return {"op_type": self.op_type, **self.rest}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.attrs().items())
        return f"Custom({shown})"
