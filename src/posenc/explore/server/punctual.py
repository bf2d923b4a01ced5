"""HTTP connections that end when their client keeps the server waiting.

A few dozen connections are all that a server of one reader holds, so one that is opened and says
half a request, or takes no answer, must not keep its place.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def punctual(seconds: float) -> type[asyncio.Protocol]:
    """A protocol for uvicorn whose connections are closed where a client is late.

    It has so many seconds to send a whole request, and again to take the answer.
    """

    class Punctual(H11Protocol):
        """A connection with an alarm, which stands while the client is awaited."""

        alarm: asyncio.TimerHandle | None = None
        left = 0  # bytes of the answer at the last alarm

        def connection_made(  # type: ignore[override]
            self, transport: asyncio.Transport
        ) -> None:
            super().connection_made(transport)
            self._await_client()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # A byte now and then moves no deadline: only a whole request ends the wait.
            if self._thinking():
                self._stop()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.left = 0
            if self._thinking():  # of a request that came before the answer to the last
                self._stop()
            else:
                self._await_client()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _thinking(self) -> bool:
            """Whether a whole request is here and its answer is not finished."""
            return (
                not (self.cycle is None or self.cycle.response_complete)
                and self.conn.their_state is not h11.SEND_BODY
            )

        def _await_client(self) -> None:
            self._stop()
            self.alarm = self.loop.call_later(seconds, self._give_up)

        def _stop(self) -> None:
            if self.alarm is not None:
                self.alarm.cancel()
                self.alarm = None

        def _give_up(self) -> None:
            left = self.transport.get_write_buffer_size()
            if left and left != self.left:  # a slow line that takes its answer
                self.left = left
                self._await_client()
                return
            # `abort` rather than `close`, which waits until the client has read everything.
            self.transport.abort()

    return Punctual
