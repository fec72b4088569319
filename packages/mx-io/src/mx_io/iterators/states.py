# SPDX-License-Identifier: Apache-2.0
"""What `load_state_dict` was given: entries by name, checked before an iterator changes."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from mx_core.errors import ArgumentError

#: Positions and numbers of epochs stay below this.
_LARGEST = 2**62


def entry(state: Any, name: str, op: str) -> Any:
    """What a state has under a name.

    Raises
    ------
    ArgumentError  it is no mapping, or has nothing under the name; says what it has
    """
    if not isinstance(state, Mapping):
        raise ArgumentError(f"[{op}] state: expected what state_dict gave, got {state!r:.80}")
    if name not in state:
        raise ArgumentError(
            f"[{op}] state: expected what state_dict gave, with {name!r}, got the keys {list(state)!r:.80}"
        )
    return state[name]


def whole_number(state: Any, name: str, op: str) -> int:
    """A number of 0 or more that a state has under a name; one in an array of no axes counts, as files give it.

    Raises
    ------
    ArgumentError  it is something else
    """
    value = entry(state, name, op)
    try:
        number = operator.index(value.item() if getattr(value, "ndim", None) == 0 else value)
    except TypeError:
        number = -1
    if isinstance(value, bool) or not 0 <= number < _LARGEST:
        raise ArgumentError(f"[{op}] state: {name}: expected a whole number of 0 or more, got {value!r:.80}")
    return number
