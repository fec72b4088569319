# SPDX-License-Identifier: Apache-2.0
"""A server and its door for workers, as Ray runs them in an actor."""

from __future__ import annotations

from typing import Any

from mx_kvstore_ray.direct import Door
from mx_kvstore_ray.server import Answer, Server, Stamp
from mx_kvstore_ray.settings import ServerPlace


class ParameterServer:
    """The actor. Threads: one, that of its event loop; takes the parameter of `Server`."""

    def __init__(self, place: ServerPlace) -> None:
        self._server = Server(place)
        self._door = Door(self._server.answer)

    async def answer(
        self, command: str, stamp: Stamp | None, told: dict[str, Any], data: Any = None
    ) -> Answer:
        """See `Server.answer`."""
        return await self._server.answer(command, stamp, told, data)

    async def door(self) -> str:
        """See `Door.open`."""
        return await self._door.open()
