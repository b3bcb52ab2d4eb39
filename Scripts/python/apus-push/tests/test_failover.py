"""A plain address behind which another server becomes the master, while connections to the old one stay open."""

from __future__ import annotations

import asyncio
import signal
import socket
import tempfile
import threading
import unittest
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from apus_push import AsyncPublisher, Publication, Publisher, ReceivedReceipt
from installation import Redis, eventually
from test_rules import command

#: The function that publishers call, as far as these tests need it: a mailbox that takes everything.
LIBRARY = """#!lua name=mailbox
redis.register_function('apus2_publish', function(keys, arguments)
    return {'new', 's1', redis.call('XADD', keys[1], '*', 'm', arguments[1])}
end)
"""


class Proxy:
    """Passes connections on to a port. Another port is for new connections only, as the name of a service leads to another server."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.sockets: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for each in self.sockets:
            each.close()


class Server(Redis):
    """A redis-server that takes publications."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--repl-diskless-sync-delay", "0")
        self.cli("function", "load", LIBRARY)
        self.cli("hset", "apus:meta", "version", "1", "queue_shards", "16")

    @property
    def mailbox_entries(self) -> int:
        """The number of commands in all mailboxes."""
        return sum(int(self.cli("xlen", name)) for name in self.cli("keys", "{q*}in:*").split())


class Servers:
    """Two servers that take publications, and the address of the first."""

    def __init__(self, folder: Path) -> None:
        self.old, self.new = Server(folder), Server(folder)
        self.proxy = Proxy(self.old.port)

    def fail_over(self) -> None:
        """Makes the second server the master of the first. The address leads to it from now on."""
        self.old.cli("replicaof", "127.0.0.1", str(self.new.port))
        eventually(lambda: "master_link_status:up" in self.old.cli("info", "replication"))
        self.proxy.target = self.new.port

    def cut_off(self) -> None:
        """Makes the first server a replica that does not find its master. The address leads to the second from now on."""
        self.old.cli("config", "set", "replica-serve-stale-data", "no")
        self.old.cli("replicaof", "127.0.0.1", "1")
        self.proxy.target = self.new.port

    def stop(self) -> None:
        self.proxy.close()
        for server in (self.old, self.new):
            server.stop(signal.SIGKILL)


@contextmanager
def servers() -> Iterator[Servers]:
    """Makes both servers for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="apus-python-") as folder:
        made = Servers(Path(folder))
        try:
            yield made
        finally:
            made.stop()


class FailoverTests(unittest.TestCase):
    def test_publications_go_to_the_new_master(self) -> None:
        with servers() as made, Publisher(made.proxy.url) as publisher:
            publisher.publish(command())
            made.fail_over()
            self.assertFalse(publisher.publish(command()).is_duplicate)
            self.assertEqual(made.new.mailbox_entries, 1)

    def test_threads_publish_on(self) -> None:
        with servers() as made, Publisher(made.proxy.url) as publisher:
            found: list[Publication] = []

            def publish() -> None:
                threads = [threading.Thread(target=lambda: found.append(publisher.publish(command()))) for _ in range(16)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            publish()
            made.fail_over()
            publish()
            self.assertEqual((len(found), made.new.mailbox_entries), (32, 16))

    def test_asyncio_publishes_on(self) -> None:
        async def publish(made: Servers) -> None:
            async with AsyncPublisher(made.proxy.url) as publisher:
                # Many at once, of which the first that finds it out must not disturb the others.
                await asyncio.gather(*(publisher.publish(command()) for _ in range(50)))
                await asyncio.to_thread(made.fail_over)
                await asyncio.gather(*(publisher.publish(command()) for _ in range(200)))

        with servers() as made:
            asyncio.run(publish(made))
            self.assertEqual(made.new.mailbox_entries, 200)

    def test_receipts_are_read_from_the_new_master(self) -> None:
        async def follow(publisher: AsyncPublisher) -> list[ReceivedReceipt]:
            return [received async for received in publisher.follow(idle=0.1)]

        async def read(made: Servers) -> list[ReceivedReceipt]:
            async with AsyncPublisher(made.proxy.url) as publisher:
                await publisher.publish(command())
                await asyncio.to_thread(made.cut_off)
                return await follow(publisher)

        with servers() as made, Publisher(made.proxy.url) as publisher:
            publisher.publish(command())
            made.cut_off()
            self.assertEqual(list(publisher.follow(idle=0.1)), [])
        with servers() as made:
            self.assertEqual(asyncio.run(read(made)), [])


if __name__ == "__main__":
    unittest.main()
