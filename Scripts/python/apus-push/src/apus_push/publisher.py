"""Publishers: of one thread, and for asyncio."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from types import TracebackType
from typing import Any, AsyncIterator, Iterator, TypeVar

import redis as _redis
import redis.asyncio as _aredis
from redis import exceptions as _exceptions
from redis.asyncio.retry import Retry as _AsyncRetry
from redis.backoff import NoBackoff as _NoBackoff
from redis.retry import Retry as _Retry

from . import _conversation as talk
from ._conversation import Acknowledgement, Conversation, Knowledge, Lane, Publication, ReceiptReading, ReceivedReceipt
from ._nodes import Address, Exchange, Nodes, Pause, Step, says_no_master
from .errors import Refused, TimedOut
from .v1.receipt_pb2 import SendReceipt
from .v1.send_pb2 import SendCommand

Result = TypeVar("Result")

#: The most connections of a publisher, each of them for one exchange at a time; more exchanges wait for one.
CONNECTIONS_MAX = 128
#: How long a Sentinel may take to connect, and to answer, in seconds.
SENTINEL_TIMEOUT = 1.0
#: How long a reply may take beyond what the command itself may wait, in seconds.
REPLY_TIMEOUT = 5.0


def _cursor(text: str, streams: list[str]) -> dict[str, str]:
    """Reads a cursor: the places of all streams, of which those that are missing begin at their oldest receipt."""
    try:
        places = json.loads(text)
        if not isinstance(places, dict):
            raise ValueError("it is no object")
    except ValueError as error:
        raise Refused(f"the cursor is none that this package gave out: {error}") from None
    return {stream: str(places.get(stream, "0")) for stream in streams}


class _Base:
    """What both publishers share."""

    def __init__(
        self,
        redis: str = "redis://127.0.0.1:6379",
        *,
        name: str | None = None,
        patience: float = 10.0,
        acknowledgement_patience: float = 1.0,
        **redis_options: Any,
    ) -> None:
        """Creates a publisher. It connects when it is first used.

        :param redis: ``redis://``, ``rediss://`` or ``unix://`` as redis-py has them; of a Redis Cluster ``redis+cluster://`` or
            ``rediss+cluster://`` and some of its nodes, with commas between them; with Sentinels ``redis+sentinel://`` or
            ``rediss+sentinel://``, all of them, and behind ``/`` the name of the master in their configuration. ``?sentinel_user=`` and
            ``sentinel_password=`` log in to the Sentinels; user and password before the hosts, or of the options, to the servers.
        :param name: the publisher's name in the configuration's ``publishers``, for one that has mailboxes of its own. It publishes for its
            own apps alone, its receipts go to ``apus:receipts:<name>`` unless a command names another stream, and ``is_duplicate`` and
            ``Conflict`` do not speak: a receipt does. None for the mailboxes that publishers share.
        :param patience: how long Redis may be away before a call gives up, in seconds.
        :param acknowledgement_patience: how long a replica or the disk may take to have a publication, in seconds.
        :param redis_options: options of ``redis.Redis``: ``username``, ``password``, ``ssl_ca_certs``, …
        """
        self._nodes = Nodes(redis)
        if name is not None and not re.fullmatch(r"[a-z0-9-]{1,64}", name):
            raise ValueError(f"name is {name!r}, but must be 1 to 64 of the characters a-z, 0-9 and -")
        self._known = Knowledge(self._nodes, acknowledgement_patience, patience, name)
        self._lock = threading.Lock()
        self._exchanges: Any = self._semaphore()
        self._clients: dict[Address | None, Any] = {}
        self._options: dict[str, Any] = {
            "client_name": "apus-push",
            "socket_connect_timeout": REPLY_TIMEOUT,
            "socket_timeout": REPLY_TIMEOUT + max(acknowledgement_patience, talk.BLOCK_MAX_MS / 1_000),
            "max_connections": CONNECTIONS_MAX,
            **redis_options,
            # The conversations read replies as Redis writes them, and decide themselves what is tried again.
            "protocol": 2,
            "decode_responses": False,
        }
        self._sentinel_options: dict[str, Any] = {}
        if self._nodes.is_sentinel:
            limits = {"socket_connect_timeout": SENTINEL_TIMEOUT, "socket_timeout": SENTINEL_TIMEOUT}
            self._sentinel_options = {**self._options, **limits, **self._nodes.sentinel_login}
            # A master that comes back after another has taken over calls itself one for seconds, so each connection is made to the server
            # that the Sentinels name at that moment.
            self._options["redis_connect_func"] = self._connected

    def _semaphore(self) -> Any:
        return threading.BoundedSemaphore(CONNECTIONS_MAX)

    def _connected(self, connection: Any) -> Any:
        raise NotImplementedError

    def _question(self) -> Exchange:
        return Exchange(0, (("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._nodes.master_name),))

    @staticmethod
    def _vote(reply: Any) -> Address | Exception | None:
        """Reads a Sentinel's answer."""
        if reply is None or isinstance(reply, Exception):
            return reply
        return Address(bytes(reply[0]).decode(), int(reply[1]))

    @staticmethod
    def _confirm(connection: Any, master: Address, role: Any) -> None:
        """Refuses a server that the Sentinels do not name, or that has not taken over yet."""
        if (connection.host, int(connection.port)) != (master.host, master.port):
            raise _exceptions.ConnectionError(f"the Sentinels name {master.host}:{master.port} as the master now")
        if bytes(role[0]) != b"master":
            raise _exceptions.ConnectionError("the server is a replica still: a failover is under way")

    def _places(self, stream: str | None, cursor: str | None, start: str) -> Conversation[dict[str, str]]:
        if start not in ("now", "oldest"):
            raise ValueError(f"start is {start!r}, but must be 'now' or 'oldest'")
        deadline = self._known.clock() + self._known.patience
        streams = yield from talk.receipt_streams(self._known, stream, deadline)
        if cursor is not None:
            return _cursor(cursor, streams)
        if start == "oldest":
            return dict.fromkeys(streams, "0")
        return (yield from talk.newest_entries(self._known, streams, deadline))

    def _read(self, places: dict[str, str]) -> Conversation[list[tuple[str, str, bytes]]]:
        return talk.read_receipts(self._known, places, self._known.clock() + self._known.patience)

    @staticmethod
    def _received(places: dict[str, str], found: list[tuple[str, str, bytes]]) -> Iterator[ReceivedReceipt]:
        """Moves the places behind each entry, and yields the receipts."""
        for stream, entry, message in found:
            places[stream] = entry
            receipt = talk.decode_receipt(message)
            if receipt is not None:
                yield ReceivedReceipt(receipt, json.dumps(places), stream, entry)


class Publisher(_Base):
    """Publishes sends and reads their receipts. It needs no service of Apus, and is thread-safe; one for each process is enough.

    ::

        with Publisher("redis://127.0.0.1:6379") as publisher:
            publication = publisher.publish(SendCommand(
                app="demo", target={"users": {"ids": ["ada"]}}, notification={"title": "Your code is 493 021"}), lane=Lane.EXPRESS)
            receipt = publisher.final_receipt(publication, within=10)
    """

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def publish(
        self,
        command: SendCommand,
        *,
        lane: Lane | str = Lane.BULK,
        acknowledgement: Acknowledgement | str | None = None,
        within: float | None = None,
    ) -> Publication:
        """Writes a command into its mailbox.

        A command without an id gets one; the caller's own is not changed. It is written again with the same id until there is an answer,
        so a lost connection never makes two sends of one. After an error publish ``error.command``, which has the id.

        :param lane: express for what a person waits for. Audiences are bulk always.
        :param acknowledgement: what to wait for; None for a replica if the server has one, otherwise memory.
        :param within: how long to try while Redis is away or the mailbox is full, in seconds; None for the publisher's patience with
            Redis and an immediate error for a full mailbox.
        :raises InvalidCommand: and the other errors of ``apus_push.errors``.
        """
        level = None if acknowledgement is None else Acknowledgement(acknowledgement)
        return self._run(talk.publishing(self._known, command, Lane(lane), level, within))

    def receipts(self, publication: Publication, *, within: float | None = None) -> Iterator[SendReceipt]:
        """Yields the receipts of a send as they come, each once, and ends after the last one.

        :param within: how long to wait for all of them, in seconds; None for as long as it takes.
        :raises TimedOut: when the last one does not come in time.
        """
        reading = ReceiptReading(self._known, publication, within)
        while not reading.is_over:
            for receipt in self._run(reading.read()):
                yield receipt
                if reading.is_last(receipt):
                    return
        raise TimedOut(talk.unknown_outcome(publication, within or 0))

    def final_receipt(self, publication: Publication, *, within: float) -> SendReceipt:
        """Waits for the receipt that ends a send: final, refused or of a dry run.

        :raises TimedOut: when it does not come within that many seconds; the send goes on.
        """
        *_, last = self.receipts(publication, within=within)
        return last

    def follow(
        self, stream: str | None = None, *, cursor: str | None = None, start: str = "now", idle: float | None = None
    ) -> Iterator[ReceivedReceipt]:
        """Yields the receipts of all sends as they come, each with a cursor. A receipt comes at least once, with the same id.

        :param stream: a stream that commands name as ``reply_to``; None for the streams of all shards, where the others come, or for the
            own one of a publisher with a name.
        :param cursor: goes on behind the receipt of that cursor, also in another process and after a restart.
        :param start: without a cursor, ``now`` or ``oldest``. Shards keep receipts for three days.
        :param idle: ends when none has come for so many seconds; None never ends.
        """
        places = self._run(self._places(stream, cursor, start))
        since = time.monotonic()
        while idle is None or time.monotonic() - since < idle:
            for received in self._received(places, self._run(self._read(places))):
                yield received
                since = time.monotonic()

    # The driver.

    def _run(self, conversation: Conversation[Result]) -> Result:
        try:
            step = next(conversation)
            while True:
                try:
                    replies = self._perform(step)
                except Exception as error:  # noqa: BLE001  the conversation decides what it means
                    step = conversation.throw(error)
                else:
                    step = conversation.send(replies)
        except StopIteration as end:
            result: Result = end.value
            return result

    def _perform(self, step: Step) -> list[Any]:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return []
        with self._exchanges:
            if self._nodes.must_learn(time.monotonic()):
                if self._nodes.is_sentinel:
                    self._ask_sentinels()
                else:
                    self._learn()
            return self._exchange(self._nodes.place(step.slot), step)

    def _exchange(self, address: Address | None, step: Exchange) -> list[Any]:
        client = self._client(address)
        pipeline = client.pipeline(transaction=False)
        for command in step.commands:
            pipeline.execute_command(*command)  # type: ignore[no-untyped-call,unused-ignore]
        replies = list(pipeline.execute(raise_on_error=False))
        if any(says_no_master(reply) for reply in replies):
            # Connections in use are left to those who use them, who find it out themselves.
            client.connection_pool.disconnect(inuse_connections=False)
        return replies

    def _learn(self) -> None:
        failure: Exception | None = None
        for candidate in self._nodes.candidates:
            try:
                (reply,) = self._exchange(candidate, Exchange(0, (("CLUSTER", "SLOTS"),)))
                if isinstance(reply, Exception):
                    raise reply
                return self._nodes.learn(reply, candidate)
            except Exception as error:  # noqa: BLE001  the next one may know
                failure = error
        assert failure is not None
        raise failure

    def _ask_sentinels(self) -> Address:
        votes: list[Address | Exception | None] = []
        for sentinel in self._nodes.seeds:
            try:
                votes.append(self._vote(*self._exchange(sentinel, self._question())))
            except Exception as error:  # noqa: BLE001  it is a vote for nobody
                votes.append(error)
            master = self._nodes.learn_master(votes, time.monotonic())
            if master is not None:
                return master
        raise AssertionError("all votes decide, or raise")

    def _connected(self, connection: Any) -> None:
        connection.on_connect()
        master = self._ask_sentinels()
        connection.send_command("ROLE")
        self._confirm(connection, master, connection.read_response())

    def _client(self, address: Address | None) -> _redis.Redis:
        with self._lock:
            client = self._clients.get(address)
            if client is None:
                is_sentinel = self._nodes.is_sentinel and address in self._nodes.seeds
                url = self._nodes.sentinel_url if is_sentinel else self._nodes.url
                options = self._sentinel_options if is_sentinel else self._options
                client = _redis.Redis.from_url(url, **options, retry=_Retry(_NoBackoff(), 0))
                if address is not None:
                    client.connection_pool.connection_kwargs.update(host=address.host, port=address.port)
                client.response_callbacks.clear()
                self._clients[address] = client
            return client


class AsyncPublisher(_Base):
    """Publishes sends and reads their receipts, for asyncio: the methods of ``Publisher``, to be awaited.

    ::

        async with AsyncPublisher("redis://127.0.0.1:6379") as publisher:
            publication = await publisher.publish(command, lane=Lane.EXPRESS)
            async for receipt in publisher.receipts(publication, within=10):
                print(receipt.kind)
    """

    async def __aenter__(self) -> AsyncPublisher:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    async def publish(
        self,
        command: SendCommand,
        *,
        lane: Lane | str = Lane.BULK,
        acknowledgement: Acknowledgement | str | None = None,
        within: float | None = None,
    ) -> Publication:
        """Writes a command into its mailbox, as ``Publisher.publish`` does."""
        level = None if acknowledgement is None else Acknowledgement(acknowledgement)
        return await self._run(talk.publishing(self._known, command, Lane(lane), level, within))

    async def receipts(self, publication: Publication, *, within: float | None = None) -> AsyncIterator[SendReceipt]:
        """Yields the receipts of a send, as ``Publisher.receipts`` does."""
        reading = ReceiptReading(self._known, publication, within)
        while not reading.is_over:
            for receipt in await self._run(reading.read()):
                yield receipt
                if reading.is_last(receipt):
                    return
        raise TimedOut(talk.unknown_outcome(publication, within or 0))

    async def final_receipt(self, publication: Publication, *, within: float) -> SendReceipt:
        """Waits for the receipt that ends a send, as ``Publisher.final_receipt`` does."""
        async for receipt in self.receipts(publication, within=within):
            last = receipt
        return last

    async def follow(
        self, stream: str | None = None, *, cursor: str | None = None, start: str = "now", idle: float | None = None
    ) -> AsyncIterator[ReceivedReceipt]:
        """Yields the receipts of all sends, as ``Publisher.follow`` does."""
        places = await self._run(self._places(stream, cursor, start))
        since = time.monotonic()
        while idle is None or time.monotonic() - since < idle:
            for received in self._received(places, await self._run(self._read(places))):
                yield received
                since = time.monotonic()

    # The driver.

    def _semaphore(self) -> Any:
        return asyncio.Semaphore(CONNECTIONS_MAX)

    async def _run(self, conversation: Conversation[Result]) -> Result:
        try:
            step = next(conversation)
            while True:
                try:
                    replies = await self._perform(step)
                except Exception as error:  # noqa: BLE001  the conversation decides what it means
                    step = conversation.throw(error)
                else:
                    step = conversation.send(replies)
        except StopIteration as end:
            result: Result = end.value
            return result

    async def _perform(self, step: Step) -> list[Any]:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return []
        async with self._exchanges:
            if self._nodes.must_learn(time.monotonic()):
                if self._nodes.is_sentinel:
                    await self._ask_sentinels()
                else:
                    await self._learn()
            return await self._exchange(self._nodes.place(step.slot), step)

    async def _exchange(self, address: Address | None, step: Exchange) -> list[Any]:
        client = self._client(address)
        pipeline = client.pipeline(transaction=False)
        for command in step.commands:
            pipeline.execute_command(*command)
        replies = list(await pipeline.execute(raise_on_error=False))
        if any(says_no_master(reply) for reply in replies) and self._clients.get(address) is client:
            # Other tasks get connections of another pool, and none that is being closed.
            del self._clients[address]
        if self._clients.get(address) is not client:
            await client.connection_pool.disconnect(inuse_connections=False)
        return replies

    async def _learn(self) -> None:
        failure: Exception | None = None
        for candidate in self._nodes.candidates:
            try:
                (reply,) = await self._exchange(candidate, Exchange(0, (("CLUSTER", "SLOTS"),)))
                if isinstance(reply, Exception):
                    raise reply
                return self._nodes.learn(reply, candidate)
            except Exception as error:  # noqa: BLE001  the next one may know
                failure = error
        assert failure is not None
        raise failure

    async def _ask_sentinels(self) -> Address:
        votes: list[Address | Exception | None] = []
        for sentinel in self._nodes.seeds:
            try:
                votes.append(self._vote(*await self._exchange(sentinel, self._question())))
            except Exception as error:  # noqa: BLE001  it is a vote for nobody
                votes.append(error)
            master = self._nodes.learn_master(votes, time.monotonic())
            if master is not None:
                return master
        raise AssertionError("all votes decide, or raise")

    async def _connected(self, connection: Any) -> None:
        await connection.on_connect()
        master = await self._ask_sentinels()
        await connection.send_command("ROLE")
        self._confirm(connection, master, await connection.read_response())

    def _client(self, address: Address | None) -> _aredis.Redis:
        client = self._clients.get(address)
        if client is None:
            is_sentinel = self._nodes.is_sentinel and address in self._nodes.seeds
            url = self._nodes.sentinel_url if is_sentinel else self._nodes.url
            options = self._sentinel_options if is_sentinel else self._options
            client = _aredis.Redis.from_url(url, **options, retry=_AsyncRetry(_NoBackoff(), 0))
            if address is not None:
                client.connection_pool.connection_kwargs.update(host=address.host, port=address.port)
            client.response_callbacks.clear()
            self._clients[address] = client
        return client
