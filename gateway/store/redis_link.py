"""Keep the connection to Redis, and give up quickly where it is slow, gone, full or talks nonsense.

The first command that fails, or takes longer than :data:`SLOW`, marks Redis as *unavailable*: from then on only one job
in the background sends anything. It connects again and again until Redis does everything that is needed (reads, writes,
notices) within that time. Each change of state is one line in the log, unless they are many.
"""

import asyncio
import math
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import structlog
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from gateway.concurrency.background import Background, Problem, time_after
from gateway.store import StoreFault, scripts
from gateway.store.redis_client import CONNECT, RedisProcess, close_client, identify
from gateway.telemetry.sampling import Sampler
from gateway.text import excerpt

PREFIX: Final = "jsonrpc-mcp-gateway:"
"""Beginning of the names of all keys and channels."""
SLOW: Final = 0.1
"""Seconds after which an answer is too late."""
BEAT: Final = 1.0
"""Seconds between two signs of life of a replica."""
SILENT: Final = 3 * BEAT
"""Seconds after which a replica is gone, or a connection dead, that was not heard of."""
_PAUSES: Final = (0.5, 0.9)
"""Least and most seconds before Redis is tried again, by chance, so that replicas do not all come at once. With an
attempt that fails (:data:`CONNECT`) it is less than :data:`SILENT`, within which all are to find another server."""
_LOG_LIMIT: Final = (10, 60.0)
"""Maximum of log lines that Redis is unavailable, and in how many seconds."""
_CONNECTIONS: Final = 16
_REPEATS: Final = 4
_MOST_REPEATS: Final = 100
"""How often, and how many notices at once, are sent again because a replica did not hear them."""
_MAX_REASON: Final = 200
_SLICES: Final = 5
"""Parts of a wait. A standstill of this process counts as one."""

Answer = TypeVar("Answer")
log = structlog.get_logger()


class Unavailable(Exception):
    """Raised where Redis is unavailable."""


class Link:
    """Send commands to Redis while it is available. ``time_script`` is Lua for the time (:data:`scripts.SERVER_TIME`).
    ``receive`` gets the notices of other replicas. ``returned`` is awaited each time that Redis is found, with whether
    it is another server than before. ``pause`` waits before Redis is tried again. A response after ``slow`` seconds is
    too late."""

    def __init__(
        self,
        redis: Redis,
        time_script: str,
        *,
        receive: Callable[[bytes], None],
        returned: Callable[[bool], Awaitable[None]],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        slow: float = SLOW,
    ) -> None:
        self.redis = redis
        self.replica = secrets.token_hex(8).encode()
        self.unavailable = "it was not asked yet"
        """Why Redis is unavailable, "" while it is available."""
        self.problem = Problem(self.unavailable, time_after())
        self.commands = 0
        """How many commands were sent, but for notices and signs of life."""
        self.replicas = 1
        """How many replicas there were when Redis was heard of last."""
        self.other_since = -math.inf
        """When another server than before was found, which may have lost something, in monotonic seconds."""
        self._server = RedisProcess()
        self._channel = f"{PREFIX}notices"
        self._beat_keys = [f"{PREFIX}replicas", self._channel]
        self._beat_script = redis.register_script(scripts.BEAT % time_script)
        self._receive = receive
        self._returned = returned
        self._pause = pause
        self._slow = slow
        self._background = Background(pause)
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._repeats: set[asyncio.Task[None]] = set()
        self._lost = asyncio.Event()
        self._tried = asyncio.Event()
        self._fault: StoreFault | None = None
        self._logged_unavailable: bool | None = None
        self._log_sampler = Sampler(*_LOG_LIMIT)

    def __repr__(self) -> str:
        state = f"unavailable: {self.unavailable}" if self.unavailable else "available"
        return f"<Link {state}, {self.replicas} replicas, {len(self._tasks)} under way>"

    async def open(self) -> None:
        """Begin to connect, and wait for the first attempt. Raises :class:`StoreFault`."""
        self._background.start("store", self._stay_connected)
        await self._tried.wait()
        if self._fault is not None:
            await self.close()
            raise self._fault

    async def close(self) -> None:
        """End everything under way, and be no replica any more."""
        await self._background.stop()
        with suppress(Unavailable):
            await self.ask(lambda: self.redis.zrem(self._beat_keys[0], self.replica))
        self.unavailable = "it is closed"
        tasks = [*self._tasks, *self._repeats]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await close_client(self.redis)

    async def ask(self, command: Callable[[], Awaitable[Answer]], patience: float = 0) -> Answer:
        """Return the answer to a command. Raises :class:`Unavailable`, and then the command may have been done or not.
        ``patience`` is the seconds that a command may take which is slow by nature.

        The command goes on after its caller was cancelled: redis-py would have to close the connection, since nobody
        reads the reply."""
        if self.unavailable:
            raise Unavailable(self.unavailable)
        task = asyncio.create_task(self._ask(command, max(patience, self._slow)))
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    async def publish(self, notice: bytes) -> None:
        """Send a notice to the other replicas. One that has lost Redis for a moment hears it later, and the others then
        hear it again. Raises :class:`Unavailable`."""
        if not await self._reach_all(notice) and len(self._repeats) < _MOST_REPEATS:
            task = asyncio.create_task(self._repeat(notice))
            self._repeats.add(task)
            task.add_done_callback(self._repeats.discard)

    def lose(self, reason: str) -> None:
        """Mark Redis as unavailable."""
        self._lost.set()
        self.unavailable = reason
        self.problem.set(f"the store is unavailable: {reason}", max(_PAUSES))
        if self._logged_unavailable or (more := self._log_sampler.admit()) is None:
            return
        self._logged_unavailable = True
        log.warning(
            "the shared store is unavailable: this process decides alone", reason=reason, replicas=self.replicas, **more
        )

    async def _reach_all(self, notice: bytes) -> bool:
        """Send a notice. Return whether all replicas heard it."""

        async def send() -> bool:
            return int(await self.redis.publish(self._channel, self.replica + notice)) >= self.replicas

        return await self.ask(send)

    async def _repeat(self, notice: bytes) -> None:
        """Send a notice again until all replicas hear it. One that stays silent is soon not counted any more."""
        with suppress(Unavailable):
            for _ in range(_REPEATS):
                await asyncio.sleep(BEAT)
                if await self._reach_all(notice):
                    return

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may be gone: asyncio logs what nobody retrieves

    async def _ask(self, command: Callable[[], Awaitable[Answer]], limit: float) -> Answer:
        try:
            async with asyncio.timeout(SILENT):
                await self._slots.acquire()
        except TimeoutError:
            self.lose(f"commands wait for {SILENT:g} s")
        else:
            try:
                return await self._attempt(command, limit)
            finally:
                self._slots.release()
        raise Unavailable(self.unavailable)

    async def _attempt(self, command: Callable[[], Awaitable[Answer]], limit: float) -> Answer:
        if self.unavailable:
            raise Unavailable(self.unavailable)
        self.commands += 1
        try:
            return await _within(limit, command())
        except Exception as error:  # noqa: BLE001, a server that talks nonsense makes redis-py raise anything
            self.lose(_describe(error))
        raise Unavailable(self.unavailable)

    async def _stay_connected(self) -> None:
        """Connect, again and again, as often whatever Redis did before."""
        while True:
            pubsub = self.redis.pubsub()
            try:
                server = await _within(CONNECT, self._connect(pubsub))
                self._find(server)
                await self._stay_until_lost(pubsub, server)
            except StoreFault as fault:
                self._fault = fault
                self.lose(str(fault))
            except Exception as error:  # noqa: BLE001, as above
                self.lose(_describe(error))
            finally:
                self._tried.set()
                await self._disconnect(pubsub)
            await self._pause(random.uniform(*_PAUSES))  # noqa: S311, not a secret

    async def _connect(self, pubsub: PubSub) -> RedisProcess:
        """Do all once that is needed. Return which server it is. Raises where Redis cannot, or is slow after it."""
        server = await identify(self.redis)
        await pubsub.subscribe(self._channel)
        await self._beat()
        await _within(self._slow, self._beat())
        return server

    def _find(self, server: RedisProcess) -> None:
        """Mark Redis as available."""
        self._lost.clear()
        self.unavailable = ""
        self.problem.set("")
        if self._logged_unavailable is not False:
            self._logged_unavailable = False
            log.info("the shared store is available", replicas=self.replicas)
        if self._is_other(server):
            self.other_since = time.monotonic()
        if server.evicts and server.id != self._server.id:
            log.warning(
                "the shared store evicts keys where memory is short: what was used once may then be used again",
                policy=server.evicts,
                remedy="set maxmemory-policy noeviction in Redis",
            )
        self._tried.set()

    def _is_other(self, server: RedisProcess) -> bool:
        return self._server.id not in ("", server.id)

    async def _tell(self, server: RedisProcess) -> None:
        await self._returned(self._is_other(server))
        if not self.unavailable:  # else it may not know all yet
            self._server = server

    async def _stay_until_lost(self, pubsub: PubSub, server: RedisProcess) -> None:
        """Beat and read notices, until one of both or any command fails."""
        telling = asyncio.create_task(self._tell(server))
        work = [asyncio.ensure_future(one) for one in (self._beat_on(), self._read_on(pubsub), self._lost.wait())]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in (telling, *work):
                one.cancel()
            await asyncio.gather(telling, *work, return_exceptions=True)

    async def _beat(self) -> None:
        count = await self._beat_script(self._beat_keys, [self.replica, int(SILENT * 1e6)])
        self.replicas = max(1, int(count))

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            await self._attempt(self._beat, self._slow)  # at once, however many commands wait

    async def _read_on(self, pubsub: PubSub) -> None:
        """Read notices. This replica's own beats are among them, so that silence means a dead connection."""
        while True:
            message = await _within(SILENT, pubsub.get_message(ignore_subscribe_messages=True, timeout=None))
            if message is not None:
                replica, notice = message["data"][: len(self.replica)], message["data"][len(self.replica) :]
                if notice and replica != self.replica:
                    self._receive(notice)

    async def _disconnect(self, pubsub: PubSub) -> None:
        try:
            await pubsub.aclose()  # type: ignore[no-untyped-call]
            await self.redis.connection_pool.disconnect(inuse_connections=False)
        except Exception as error:  # noqa: BLE001, it is closed anyway
            log.debug("the connection to the shared store did not close well", error=_describe(error))


async def _within(limit: float, command: Awaitable[Answer]) -> Answer:
    """Return the answer to a command. Raises :class:`TimeoutError` after ``limit`` seconds, without those for which
    this process itself stood still: they are no fault of Redis."""
    answer = asyncio.ensure_future(command)
    # Read how it ended, also where nobody waits any more, or asyncio logs it as never retrieved.
    answer.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        for _ in range(_SLICES):
            await asyncio.wait({answer}, timeout=limit / _SLICES)
            if answer.done():
                return answer.result()
    finally:
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer}, timeout=limit / _SLICES)
    raise TimeoutError(f"no answer within {limit * 1000:.0f} ms")


def _describe(error: BaseException) -> str:
    """Return what failed, for operators. A server that talks nonsense may have written the text."""
    if type(error) in (Unavailable, StoreFault, TimeoutError) and str(error):
        return str(error)
    text = excerpt(" ".join(str(error).split()), _MAX_REASON)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
