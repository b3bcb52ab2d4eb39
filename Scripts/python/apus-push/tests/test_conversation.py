"""A publisher's conversation with Redis, whose part the tests speak."""

from __future__ import annotations

import asyncio
import sys
import threading
import unittest
from typing import Any, Callable, Iterator
from unittest import mock

from apus_push import (
    Acknowledgement,
    AsyncPublisher,
    Conflict,
    InvalidCommand,
    Lane,
    MailboxFull,
    NotInitialized,
    Publication,
    Publisher,
    Refused,
    SendCommand,
    SendReceipt,
    Unavailable,
)
from apus_push._conversation import (
    APPS_PAUSE,
    ORIGINAL_PATIENCE,
    REPLICA_DEMAND_MAX,
    REPLICA_NEWS_LIFETIME,
    Knowledge,
    ReceiptReading,
    publishing,
    read_receipts,
)
from apus_push._nodes import Address, Exchange, Meaning, Nodes, Pause, Step, meaning
from redis import exceptions

LOST = exceptions.ConnectionError("lost")
META: list[Any] = [[b"1", b"16"]]
ROUTES: list[Any] = [[b"demo/apns/production", b"next"]]
ALONE: list[Any] = [b"role:master\r\n"]
REPLICATED: list[Any] = [b"slave0:ip=1,port=2,state=online"]
NEW = [b"new", b"s1", b"1718000000000-3"]


class Conversation:
    """Speaks Redis' part: gives the next reply to each exchange, and moves the clock for each pause."""

    def __init__(self, *script: Any, url: str = "redis://one", **settings: Any) -> None:
        self.script = list(script)
        self.steps: list[Step] = []
        self.time = 1_000.0
        self.known = Knowledge(
            Nodes(url), 1.0, 10.0, clock=lambda: self.time, now=lambda: 1_800_000_000.0, chance=lambda: 0.5, **settings
        )
        if self.known.nodes.is_cluster:
            self.known.nodes.is_stale = False

    def publish(self, acknowledgement: Acknowledgement | None = None, within: float | None = None, **fields: Any) -> Publication:
        words = {"id": "s1", "app": "demo", "target": {"topic": "news"}, "notification": {"title": "t"}, **fields}
        result: Publication = self.hold(publishing(self.known, SendCommand(**words), Lane.BULK, acknowledgement, within))
        assert not self.script, f"nobody asked for {self.script}"
        return result

    def hold(self, talk: Any) -> Any:
        try:
            step = next(talk)
            while True:
                self.steps.append(step)
                if isinstance(step, Pause):
                    self.time += step.seconds
                    step = talk.send([])
                    continue
                answer = self.script.pop(0)
                step = talk.throw(answer) if isinstance(answer, Exception) else talk.send(answer)
        except StopIteration as end:
            return end.value

    @property
    def words(self) -> list[list[str]]:
        """The commands of each exchange, by their first two words; ``pause`` for a pause."""
        return [
            [" ".join(str(word) for word in command[:2]) for command in step.commands] if isinstance(step, Exchange) else ["pause"]
            for step in self.steps
        ]

    @property
    def calls(self) -> list[Any]:
        return [step for step in self.steps if isinstance(step, Exchange) and step.commands[0][0] == "FCALL"]


def entries(*receipts: tuple[str, SendReceipt | None]) -> list[Any]:
    """Returns Redis' answer to a read that finds those entries; None stands for a receipt of another send."""
    found = [[entry.encode(), [b"m", b"" if receipt is None else receipt.SerializeToString()]] for entry, receipt in receipts]
    return [[[b"a stream", found]]]


def backwards(*receipts: tuple[str, SendReceipt | None]) -> list[Any]:
    """Returns Redis' answer to a read of entries backwards that finds those."""
    return [entries(*receipts)[0][0][1]]


class ReceiptTests(unittest.TestCase):
    END = SendReceipt(id="final:s1", app="demo", send="s1", kind="RECEIPT_KIND_FINAL")
    UNDER_WAY = SendReceipt(id="recipients:s1", app="demo", send="s1", kind="RECEIPT_KIND_RECIPIENTS")
    AGAIN = SendReceipt(id="duplicate:s1", app="demo", send="s1", kind="RECEIPT_KIND_REFUSED", duplicate_of="s1")
    NOTHING: list[Any] = [None]

    def read(self, answer: list[Any], *script: Any, within: float | None = None) -> tuple[Conversation, list[SendReceipt]]:
        """Publishes a command, gives Redis' answers to the reads of its receipts, each a quarter of a second after the one before, and
        returns what was read until they have ended."""
        talk = Conversation(META, ROUTES, ALONE, [answer])
        reading = ReceiptReading(talk.known, talk.publish(), within)
        talk.steps.clear()
        talk.script = list(script)
        found: list[SendReceipt] = []
        while talk.script and not reading.is_over:
            found += talk.hold(reading.read())
            talk.time += 0.25
        return talk, found

    def places(self, steps: list[Any]) -> list[str]:
        """Returns the entries after which was read."""
        return [step.commands[0][-1] for step in steps]

    def waits(self, steps: list[Any]) -> list[int]:
        """Returns the longest waits of the reads in milliseconds."""
        return [step.commands[0][4] for step in steps]

    def test_both_publishers_read_so_until_the_last_receipt(self) -> None:
        publication = Conversation(META, ROUTES, ALONE, [NEW]).publish()
        answers = [self.NOTHING, entries(("1717999999990-0", self.END))]
        with mock.patch.object(Publisher, "_perform", side_effect=answers) as sync:
            self.assertEqual(Publisher("redis://one").final_receipt(publication, within=10), self.END)
        with mock.patch.object(AsyncPublisher, "_perform", side_effect=answers) as other:
            self.assertEqual(asyncio.run(AsyncPublisher("redis://one").final_receipt(publication, within=10)), self.END)
        for performed in (sync, other):
            steps = [call.args[-1] for call in performed.call_args_list]
            self.assertEqual(self.places(steps), ["1717999999999-0", "1717999939999-0"])

    def test_receipts_are_read_once_more_a_minute_before_their_command_in_case_the_clock_went_back(self) -> None:
        talk, found = self.read(NEW, self.NOTHING, entries(("1717999999990-0", self.END)), entries(("1717999999990-1", self.END)))
        self.assertEqual(found, [self.END])
        self.assertEqual(self.places(talk.steps), ["1717999999999-0", "1717999939999-0", "1717999999990-0"])

    def test_receipts_of_others_do_not_keep_from_that_and_are_read_once(self) -> None:
        others = [entries((f"171800000000{number}-0", None)) for number in range(7)]
        before = backwards(("1717999999990-1", self.END), ("1717999999990-0", self.UNDER_WAY), ("1717999999980-0", None))
        talk, found = self.read(NEW, *others[:5], before, *others[5:])
        self.assertEqual(found, [self.UNDER_WAY, self.END])
        reads = [step for step in talk.steps if isinstance(step, Exchange) and step.commands[0][0] == "XREAD"]
        self.assertEqual(self.places(reads), ["1717999999999-0", *(f"171800000000{number}-0" for number in range(6))])
        self.assertEqual(self.searches(talk), [("1717999999999-0", "1717999939999-0")])

    def test_of_many_receipts_of_others_before_a_publication_the_newest_are_read_and_no_more(self) -> None:
        pages = [backwards(*((f"17179999{70 - page}000-{99 - number}", None) for number in range(100))) for page in range(10)]
        others = [entries((f"171800000000{number}-0", None)) for number in range(7)]
        talk, found = self.read(NEW, *others[:5], *pages, *others[5:])
        self.assertEqual((found, talk.script), ([], []))
        firsts = ["1717999999999-0", *(f"(17179999{70 - page}000-0" for page in range(9))]
        self.assertEqual(self.searches(talk), [(first, "1717999939999-0") for first in firsts])

    def searches(self, talk: Conversation) -> list[tuple[str, str]]:
        """Returns the first and the last entry of each read backwards."""
        commands = [step.commands[0] for step in talk.steps if isinstance(step, Exchange)]
        return [(str(command[2]), str(command[3])) for command in commands if command[0] == "XREVRANGE"]

    def test_both_publishers_read_so_while_receipts_of_others_come(self) -> None:
        publication = Conversation(META, ROUTES, ALONE, [NEW]).publish()
        # Nothing else comes then.
        answers = [entries(("1718000000000-0", None)), self.NOTHING, backwards(("1717999999990-0", self.END))]
        with mock.patch.object(Publisher, "_perform", side_effect=answers) as sync:
            self.assertEqual(Publisher("redis://one").final_receipt(publication, within=10), self.END)
        with mock.patch.object(AsyncPublisher, "_perform", side_effect=answers) as other:
            self.assertEqual(asyncio.run(AsyncPublisher("redis://one").final_receipt(publication, within=10)), self.END)
        for performed in (sync, other):
            words = [call.args[-1].commands[0][0] for call in performed.call_args_list]
            self.assertEqual(words, ["XREAD", "XREAD", "XREVRANGE"])

    def test_half_of_a_short_time_is_left_for_that(self) -> None:
        talk, found = self.read(NEW, self.NOTHING, entries(("1717999999990-0", self.END)), within=0.5)
        self.assertEqual((found, self.waits(talk.steps)), ([self.END], [250, 250]))
        talk, _ = self.read(NEW, self.NOTHING, self.NOTHING, self.NOTHING, within=None)
        self.assertEqual(self.waits(talk.steps), [1_000, 1_000, 1_000])

    def test_whoever_reads_from_the_beginning_does_not_go_back(self) -> None:
        talk, _ = self.read([b"duplicate", b"s1"], self.NOTHING, self.NOTHING)
        self.assertEqual(self.places(talk.steps), ["0", "0"])
        # Its command stood in the mailbox twice.
        talk, found = self.read(
            NEW, entries(("1718000000000-1", self.AGAIN)), entries(("5-0", self.END), ("1718000000000-1", self.AGAIN)), self.NOTHING
        )
        self.assertEqual((self.places(talk.steps), found), (["1717999999999-0", "0", "1718000000000-1"], [self.END]))

    def test_the_refusal_of_an_earlier_command_does_not_end_the_send_of_a_new_one_of_its_id(self) -> None:
        published = Conversation(META, ROUTES, ALONE, [NEW]).publish().published_at_ns
        earlier, own, unknown = (
            SendReceipt(id=f"refused:{at}", app="demo", send="s1", kind="RECEIPT_KIND_REFUSED", published_at_ns=at)
            for at in (published - 1, published, 0)
        )
        for refusal in (own, unknown):
            _, found = self.read(NEW, self.NOTHING, entries(("1717999999990-0", earlier), ("1717999999990-1", refusal)))
            self.assertEqual(found, [refusal])
        # The same command may have been published before.
        _, found = self.read([b"duplicate", b"s1"], entries(("5-0", earlier)))
        self.assertEqual(found, [earlier])
        _, found = self.read(NEW, entries(("1718000000000-0", earlier), ("1718000000000-1", self.AGAIN)), entries(("5-0", earlier)))
        self.assertEqual(found, [earlier])

    def test_the_final_receipt_of_an_earlier_send_does_not_end_a_new_one_of_its_id(self) -> None:
        published = Conversation(META, ROUTES, ALONE, [NEW]).publish().published_at_ns
        earlier, own = (
            SendReceipt(id=f"final:{at}", app="demo", send="s1", kind="RECEIPT_KIND_FINAL", published_at_ns=at)
            for at in (published - 1, published)
        )
        _, found = self.read(NEW, self.NOTHING, entries(("1717999999990-0", earlier), ("1717999999990-1", own)))
        self.assertEqual(found, [own])
        # The same command may have been published before.
        _, found = self.read([b"duplicate", b"s1"], entries(("5-0", earlier)))
        self.assertEqual(found, [earlier])


class PublishTests(unittest.TestCase):
    def test_a_publication_asks_what_it_must_know_once(self) -> None:
        talk = Conversation(META, ROUTES, ALONE, [NEW])
        publication = talk.publish()
        self.assertEqual(
            talk.words,
            [["HMGET apus:meta"], ["HKEYS apus:routes"], ["INFO replication"], ["FCALL apus2_publish"]],
        )
        self.assertEqual(publication.receipts_after, "1717999999999-0")
        self.assertEqual((publication.is_duplicate, publication.acknowledgement), (False, Acknowledgement.MEMORY))
        talk.script = [[NEW]]
        talk.publish()
        self.assertEqual(talk.words[4:], [["FCALL apus2_publish"]])

    def test_a_lost_answer_is_asked_for_again_and_is_no_duplicate(self) -> None:
        talk = Conversation(META, ROUTES, ALONE, LOST, ALONE, [[b"duplicate", b"s1"]])
        publication = talk.publish()
        self.assertFalse(publication.is_duplicate)
        first, second = talk.calls
        self.assertEqual(first, second)
        self.assertEqual(publication.receipts_after, "0")

    def test_a_duplicate_of_another_is_one(self) -> None:
        self.assertTrue(Conversation(META, ROUTES, ALONE, [[b"duplicate", b"s1"]]).publish().is_duplicate)
        # The connection was lost, but the key names another's send.
        talk = Conversation(META, ROUTES, ALONE, LOST, ALONE, [[b"duplicate", b"theirs"]])
        publication = talk.publish(idempotency_key="k")
        self.assertEqual((publication.send, publication.is_duplicate), ("theirs", True))

    def test_a_conflict_tells_what_names_another_send(self) -> None:
        for key, send, name in [("", "s1", "the id"), ("k", "theirs", "the idempotency key"), ("k", "s1", "the idempotency key or the id")]:
            with self.assertRaises(Conflict) as caught:
                Conversation(META, ROUTES, ALONE, [[b"conflict", send.encode()]]).publish(idempotency_key=key)
            self.assertEqual(caught.exception.send, send)
            self.assertTrue(str(caught.exception).startswith(f"{name} names the send {send} already"), str(caught.exception))

    def test_attempts_end_with_the_patience_and_the_error_has_the_command(self) -> None:
        talk = Conversation(META, ROUTES, *[LOST] * 100)
        with self.assertRaises(Unavailable) as caught:
            talk.publish(id="")
        self.assertTrue(caught.exception.command is not None and caught.exception.command.id)
        self.assertLess(talk.time, 1_010.0)
        self.assertGreater(talk.time, 1_008.0)

    def test_the_proof_follows_on_the_same_connection(self) -> None:
        talk = Conversation(META, ROUTES, REPLICATED, [NEW, 1])
        publication = talk.publish()
        self.assertEqual(talk.words[-1], ["FCALL apus2_publish", "WAIT 1"])
        self.assertEqual((publication.acknowledgement, publication.is_acknowledged), (Acknowledgement.REPLICA, True))

    def test_a_replica_is_demanded_for_an_hour_after_one_was_seen(self) -> None:
        talk = Conversation(META, ROUTES, REPLICATED, [NEW, 1])
        talk.publish()
        # A master that has just taken over has none.
        talk.time += REPLICA_NEWS_LIFETIME + 1
        talk.script = [ALONE, [NEW, 0]]
        unproven = talk.publish(id="s2")
        self.assertEqual((unproven.acknowledgement, unproven.is_acknowledged), (Acknowledgement.MEMORY, False))
        talk.time += REPLICA_DEMAND_MAX
        talk.script = [ALONE, [NEW]]
        alone = talk.publish(id="s3")
        self.assertEqual((alone.acknowledgement, alone.is_acknowledged), (Acknowledgement.MEMORY, True))

    def test_the_list_of_apps_may_be_away(self) -> None:
        lost = [exceptions.ConnectionError("away")] * 5
        talk = Conversation(META, *lost, ALONE, [NEW])
        self.assertEqual(talk.publish(app="nobodys").app, "nobodys")
        self.assertLess(talk.time, 1_000.0 + ORIGINAL_PATIENCE + 0.01)
        # It is not asked for at every publication.
        talk.script = [[NEW]]
        talk.publish(app="nobodys")
        talk.time += APPS_PAUSE
        talk.script = [ROUTES]
        with self.assertRaises(InvalidCommand):
            talk.publish(app="nobodys")

    def test_a_silent_replica_is_no_error(self) -> None:
        publication = Conversation(META, ROUTES, [NEW, 0]).publish(Acknowledgement.REPLICA)
        self.assertEqual((publication.acknowledgement, publication.is_acknowledged), (Acknowledgement.MEMORY, False))

    def test_fsync_uses_waitaof_where_redis_has_it(self) -> None:
        talk = Conversation(META, ROUTES, [[[b"waitaof", 4]]], [NEW, [1, 0]])
        self.assertTrue(talk.publish(Acknowledgement.FSYNC).is_acknowledged)
        self.assertEqual(talk.words[-1], ["FCALL apus2_publish", "WAITAOF 1"])

    def test_a_full_mailbox_is_an_error_at_once_or_waited_for(self) -> None:
        full = [b"full", 10_000, 2_000]
        with self.assertRaises(MailboxFull) as caught:
            Conversation(META, ROUTES, ALONE, [full]).publish()
        self.assertEqual(caught.exception.retry_after, 2)
        talk = Conversation(META, ROUTES, ALONE, [full], [full], [NEW])
        talk.publish(within=10)
        self.assertEqual(talk.time, 1_003.0)

    def test_a_refusal_of_the_list_of_apps_is_left_to_the_receipt(self) -> None:
        talk = Conversation(META, [exceptions.NoPermissionError("NOPERM")], ALONE, [NEW])
        self.assertEqual(talk.publish(app="nobodys").app, "nobodys")

    def test_an_installation_must_be_there(self) -> None:
        with self.assertRaisesRegex(NotInitialized, "run `apus init`"):
            Conversation([[None, None]]).publish()
        with self.assertRaisesRegex(NotInitialized, "run `apus init`"):
            Conversation(META, ROUTES, ALONE, [exceptions.ResponseError("ERR Function not found")]).publish()
        with self.assertRaisesRegex(Refused, "OOM"):
            Conversation(META, ROUTES, ALONE, [exceptions.OutOfMemoryError("OOM")]).publish()


class ClusterTests(unittest.TestCase):
    URL = "redis+cluster://u:p@one:7000,two,[::1]:7002?protocol=2"

    def test_the_url_names_seeds(self) -> None:
        nodes = Nodes(self.URL)
        self.assertEqual([(seed.host, seed.port) for seed in nodes.seeds], [("one", 7000), ("two", 6379), ("::1", 7002)])
        self.assertEqual(nodes.url, "redis://u:p@localhost:6379?protocol=2")
        for wrong in ("http+cluster://one", "redis+cluster://", "redis+cluster://one:port"):
            with self.assertRaises(Refused):
                Nodes(wrong)

    def test_sizes_are_read_from_copies_while_their_master_is_away(self) -> None:
        lost = [exceptions.ConnectionError("away")] * 5
        talk = Conversation(*lost, [[b"1", b"16"]], ROUTES, ALONE, [NEW], url=self.URL)
        self.assertEqual(talk.publish().send, "s1")
        self.assertEqual(sum("installation" in words[0] for words in talk.words), 1)
        # One server has no copies.
        with self.assertRaises(Unavailable):
            Conversation(*[LOST] * 100).publish()
        # Nor is anything sent when no copy answers.
        with self.assertRaises(Unavailable):
            Conversation(*[LOST] * 100, url=self.URL).publish()

    def test_slots_have_their_masters_and_gaps_are_looked_at_again(self) -> None:
        nodes = Nodes(self.URL)
        nodes.learn([[0, 8_000, [b"10.0.0.1", 1, b"id"], [b"10.0.0.9", 2, b"replica"]], [8_001, 16_383, [b"", 3, b"id"]]], nodes.seeds[0])
        self.assertFalse(nodes.is_stale)
        self.assertEqual((nodes.owner(0), nodes.owner(16_383)), (type(nodes.seeds[0])("10.0.0.1", 1), type(nodes.seeds[0])("one", 3)))
        nodes.learn([[0, 8_000, [b"10.0.0.1", 1, b"id"]]], nodes.seeds[0])
        self.assertTrue(nodes.is_stale)
        self.assertEqual(nodes.place(0), nodes.owner(0))
        with self.assertRaisesRegex(Unavailable, "slot 16383"):
            nodes.place(16_383)
        self.assertIsNone(Nodes("redis://one").place(0))

    def test_other_threads_see_the_slots_of_before_or_after_and_no_gap(self) -> None:
        nodes = Nodes(self.URL)
        whole = [[first, first + 1_023, [b"10.0.0.1", first, b"id"]] for first in range(0, 16_384, 1_024)]
        nodes.learn(whole, nodes.seeds[0])
        seen: list[tuple[object, int]] = []

        def halves() -> Iterator[Any]:
            """Gives another thread its turn before each range."""
            for each in whole:
                thread = threading.Thread(target=lambda: seen.append((nodes.owner(16_383), len(nodes.candidates))))
                thread.start()
                thread.join()
                yield each

        nodes.learn(halves(), nodes.seeds[0])  # type: ignore[arg-type]
        self.assertEqual(seen, [(Address("10.0.0.1", 15_360), 16 + len(nodes.seeds))] * 16)

    def test_threads_learn_and_ask_at_once(self) -> None:
        nodes = Nodes(self.URL)
        whole = [[slot, slot + 63, [b"10.0.0.1", slot, b"id"]] for slot in range(0, 16_384, 64)]
        nodes.learn(whole, nodes.seeds[0])
        done = threading.Event()
        errors: list[Exception] = []

        def repeat(action: Callable[[], object]) -> None:
            try:
                while not done.is_set():
                    action()
            except Exception as error:  # noqa: BLE001  the test fails with it below
                errors.append(error)

        actions: list[Callable[[], object]] = [lambda: nodes.candidates, lambda: nodes.place(16_383)] * 2
        threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for port in range(100):
                nodes.learn(whole, nodes.seeds[0])
                nodes.failed(exceptions.MovedError(f"{port} 10.0.0.2:{port}"))
        finally:
            done.set()
            for thread in threads:
                thread.join()
            sys.setswitchinterval(interval)
        self.assertEqual(errors, [])

    def test_a_moved_slot_is_asked_for_at_its_new_master_and_asking_is_never_sent(self) -> None:
        talk = Conversation(META, ROUTES, url=self.URL)
        talk.script += [[exceptions.MovedError("8245 10.0.0.7:7007")], ALONE, [exceptions.AskError("8245 10.0.0.8:1")], ALONE, [NEW]]
        talk.script.insert(2, ALONE)
        talk.publish()
        self.assertEqual(len(talk.calls), 3)
        owner = talk.known.nodes.owner(8_245)
        self.assertEqual(owner and (owner.host, owner.port), ("10.0.0.7", 7007))
        self.assertNotIn(["ASKING"], talk.words)

    def test_each_shard_is_read_by_itself_where_slots_may_be_apart(self) -> None:
        places = {"{q0}receipts": "0", "{q1}receipts": "5-0"}
        entry = [[b"{q1}receipts", [[b"6-0", [b"m", b"bytes"]]]]]
        talk = Conversation([None], [entry], url=self.URL)
        self.assertEqual(talk.hold(read_receipts(talk.known, places, 2_000)), [("{q1}receipts", "6-0", b"bytes")])
        one = Conversation([[*entry]])
        one.hold(read_receipts(one.known, places, 2_000))
        self.assertIn("BLOCK", str(one.steps[0]))
        self.assertNotIn("BLOCK", str(talk.steps[0]))

    def test_errors_say_whether_something_may_have_been_done(self) -> None:
        for error, what in (
            (exceptions.MovedError("1 a:1"), Meaning.REDIRECT),
            (exceptions.ResponseError("MOVED 1 ::1:7000"), Meaning.REDIRECT),
            (exceptions.ResponseError("ASK 1 a:1"), Meaning.RETRY),
            (exceptions.ResponseError("1 a:1"), Meaning.FINAL),
            (exceptions.AskError("1 a:1"), Meaning.RETRY),
            (exceptions.ClusterDownError("CLUSTERDOWN"), Meaning.RETRY),
            (exceptions.ResponseError("Script attempted to access a non local key in a cluster node"), Meaning.RETRY),
            (exceptions.ResponseError("ERR Script attempted to access an undeclared key"), Meaning.RETRY),
            (exceptions.ResponseError("Script attempted to access an unknown thing"), Meaning.FINAL),
            (exceptions.ReadOnlyError("READONLY"), Meaning.RETRY),
            (exceptions.ConnectionError("x"), Meaning.UNKNOWN),
            (exceptions.TimeoutError("x"), Meaning.UNKNOWN),
            (exceptions.AuthenticationError("x"), Meaning.FINAL),
            (exceptions.NoPermissionError("x"), Meaning.FINAL),
            (exceptions.OutOfMemoryError("x"), Meaning.FINAL),
        ):
            self.assertEqual(meaning(error), what, error)


class SentinelTests(unittest.TestCase):
    URL = "rediss+sentinel://u:p@one,two:7000,[::1]/my%20master?sentinel_user=s&sentinel_password=a%26b&ssl_ca_certs=/ca.pem"
    OLD, NEW = Address("10.0.0.1", 6379), Address("10.0.0.2", 6379)

    def test_the_url_names_sentinels_and_the_master(self) -> None:
        nodes = Nodes(self.URL)
        self.assertEqual([(seed.host, seed.port) for seed in nodes.seeds], [("one", 26379), ("two", 7000), ("::1", 26379)])
        self.assertEqual(nodes.master_name, "my master")
        self.assertEqual(nodes.url, "rediss://u:p@localhost:6379/?ssl_ca_certs=%2Fca.pem")
        self.assertEqual(nodes.sentinel_url, "rediss://localhost:6379/?ssl_ca_certs=%2Fca.pem")
        self.assertEqual(nodes.sentinel_login, {"username": "s", "password": "a&b"})
        for wrong in ("redis+sentinel://one", "redis+sentinel:///m", "redis+other://one", "redis+sentinel://one/"):
            with self.assertRaises(Refused):
                Nodes(wrong)

    def test_a_majority_of_all_sentinels_must_agree(self) -> None:
        nodes = Nodes(self.URL)
        self.assertEqual(nodes.majority, 2)
        self.assertTrue(nodes.must_learn(0))
        self.assertIsNone(nodes.learn_master([self.OLD], 0))
        self.assertIsNone(nodes.learn_master([self.OLD, self.NEW], 0))
        self.assertEqual(nodes.learn_master([LOST, self.OLD, self.OLD], 5), self.OLD)
        self.assertEqual(nodes.owner(7), self.OLD)
        # One that was cut off names the old one.
        with self.assertRaisesRegex(Unavailable, "2 of 3 Sentinels must agree"):
            nodes.learn_master([self.OLD, LOST, LOST], 6)
        self.assertEqual(nodes.learn_master([self.NEW, self.OLD, self.NEW], 7), self.NEW)

    def test_the_master_is_asked_for_again_after_a_while_or_a_failure(self) -> None:
        nodes = Nodes(self.URL)
        nodes.learn_master([self.OLD, self.OLD], 100)
        self.assertFalse(nodes.must_learn(100 + Nodes.MASTER_LIFETIME))
        self.assertTrue(nodes.must_learn(100.1 + Nodes.MASTER_LIFETIME))
        # Sentinels that are away say nothing against a master that answers, but help nobody to another one.
        self.assertEqual(nodes.learn_master([LOST, LOST, LOST], 200), self.OLD)
        nodes.failed(LOST)
        self.assertTrue(nodes.must_learn(200))
        with self.assertRaises(Unavailable):
            nodes.learn_master([LOST, LOST, LOST], 200)

    def test_wrong_names_and_passwords_are_told(self) -> None:
        with self.assertRaisesRegex(Refused, "no Sentinel has a master named 'my master'"):
            Nodes(self.URL).learn_master([None, LOST, None], 0)
        with self.assertRaisesRegex(Refused, "sentinel_password"):
            Nodes(self.URL).learn_master([exceptions.AuthenticationError("NOAUTH")] * 3, 0)


if __name__ == "__main__":
    unittest.main()
