# SPDX-License-Identifier: Apache-2.0
"""One conversation with one ingress process: lines of JSON out, acknowledgements back."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, Self

LONGEST_LINE = 4 * 1024 * 1024
"""Ingress reports at most the traffic of every sandbox in one line."""

OnActivity = Callable[[Mapping[str, int]], None]
"""Hears which sandboxes were used since the last time, and when last, in Unix milliseconds."""


class ChannelClosed(Exception):
    """The other end is gone; the next one starts with the whole table."""


class MessageRefused(Exception):
    """Ingress acknowledged a message with an error."""


class Channel:
    """Requests may overlap; ingress answers them in order."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_activity: OnActivity,
    ) -> None:
        """Take an open connection; see connect."""
        self._reader = reader
        self._writer = writer
        self._on_activity = on_activity
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._is_closed = False
        self.streams: Mapping[str, Mapping[str, int]] = {}
        """How many streams are open and were begun, by kind, as ingress last said."""

    @classmethod
    async def connect(cls, ours: socket.socket, on_activity: OnActivity) -> Self:
        """Speak over our end of a socket pair, and own it from now on."""
        ours.setblocking(False)
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        except BaseException:
            ours.close()
            raise
        return cls(reader, writer, on_activity)

    async def request(self, op: str, **values: Any) -> None:
        """Send one message; return once it is in force. Raises ChannelClosed, MessageRefused."""
        if self._is_closed:
            raise ChannelClosed
        number = next(self._numbers)
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"seq": number, "op": op, **values}, separators=(",", ":"))
        try:
            self._writer.write(line.encode() + b"\n")
            await done
        finally:
            self._waiting.pop(number, None)

    async def listen(self) -> None:
        """Read what ingress says until it is gone."""
        try:
            while line := await self._reader.readline():
                self._hear(json.loads(line))
        except (OSError, ValueError):
            return
        finally:
            self.close()

    def close(self) -> None:
        """Hang up; whoever waits learns of it."""
        self._is_closed = True
        self._writer.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ChannelClosed())

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "activity" in message:
            self._on_activity(message["activity"])
        self.streams = message.get("streams", self.streams)
        waiting = self._waiting.get(message.get("ack", 0))
        if waiting is None or waiting.done():
            return
        if "error" in message:
            waiting.set_exception(MessageRefused(str(message["error"])))
        else:
            waiting.set_result(None)
