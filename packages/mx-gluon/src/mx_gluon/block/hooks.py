# SPDX-License-Identifier: Apache-2.0
"""Functions that are called before or after a block."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from mx_core.errors import MXNetError

Hook = Callable[..., Any]


class HookHandle:
    """A registered hook, which `detach` or the end of a `with` block removes.

    Threads: one at a time.
    """

    def __init__(self) -> None:
        self._hooks: dict[int, Hook] | None = None
        self._id = 0

    def attach(self, hooks_dict: dict[int, Hook], hook: Hook) -> None:
        """Adds the hook to those of a block, once."""
        if self._hooks is not None:
            raise MXNetError("[HookHandle] attach: the handle has a hook already")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks = hooks_dict

    def detach(self) -> None:
        """Removes the hook; a second time nothing happens."""
        if self._hooks is not None:
            self._hooks.pop(self._id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()
