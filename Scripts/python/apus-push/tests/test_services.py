"""The package with the real Redis, services and simulator."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import signal
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import Any, Iterator

import redis
from apus_push import (
    Acknowledgement,
    AcknowledgementUnavailable,
    AsyncPublisher,
    AsyncRegistrationClient,
    Conflict,
    ImportedDevice,
    InvalidCommand,
    Lane,
    MailboxFull,
    NotInitialized,
    Publication,
    Publisher,
    Refused,
    RegistrationClient,
    RegistrationError,
    SendCommand,
    TimedOut,
    Unavailable,
)
from apus_push._keyspace import home_tag, slot_of
from apus_push.publisher import CONNECTIONS_MAX
from apus_push.v1.receipt_pb2 import (
    RECEIPT_KIND_DRY_RUN,
    RECEIPT_KIND_FINAL,
    RECEIPT_KIND_RECIPIENTS,
    RECEIPT_KIND_REFUSED,
    SendReceipt,
)
from installation import APP, ROOT, Installation, Redis, eventually, installation, sentinels
from test_rules import INVALID, command


def to(user: str, **fields: Any) -> SendCommand:
    """Returns a command to a user."""
    return command(target={"users": {"ids": [user]}}, **fields)


class Case(unittest.TestCase):
    """Tests that share an installation."""

    masters = 1
    services: tuple[str, ...] = ()
    stack: ExitStack
    installation: Installation
    admin: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.stack = ExitStack()
        try:
            cls.installation = cls.stack.enter_context(installation(cls.masters))
            if cls.services:
                cls.installation.simulate()
                cls.installation.serve(*cls.services)
        except BaseException:
            cls.stack.close()
            raise

    @classmethod
    def tearDownClass(cls) -> None:
        cls.stack.close()

    def publisher(self, **options: Any) -> Publisher:
        publisher = Publisher(self.installation.url, **options)
        self.addCleanup(publisher.close)
        return publisher

    @classmethod
    def key(cls, role: str = "admin") -> str:
        key = cls.installation.apus("key", "create", "--app", APP, "--role", role, f"k{time.monotonic_ns()}").strip()
        eventually(lambda: cls._knows(key))
        return key

    @classmethod
    def _knows(cls, key: str) -> bool:
        with RegistrationClient(cls.installation.api, app=APP, key=key) as client:
            try:
                return client.device("nobodys") is None
            except RegistrationError as error:
                return error.status == 403

    def client(self, key: str) -> RegistrationClient:
        client = RegistrationClient(self.installation.api, app=APP, key=key)
        self.addCleanup(client.close)
        return client


webhook_check = """
now = str(int(time.time()))
code = base64.b64encode(hmac.new(b"s", f"1.{now}.body".encode(), hashlib.sha256).digest()).decode()
headers = {"webhook-id": "1", "webhook-timestamp": now, "webhook-signature": "v1," + code}
assert is_genuine(b"s", headers, b"body") and not is_genuine(b"s", headers, b"other")
"""


class SendTests(Case):
    services = ("dispatcher", "feedback", "registration")

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.admin = cls.key()
        with RegistrationClient(cls.installation.api, app=APP, key=cls.admin) as devices:
            lines: list[ImportedDevice] = [
                {"device": f"d{n}", "provider": "fcm", "token": f"token-{n}", "user": f"u{n % 50}", "topics": ["news"]}
                for n in range(100)
            ]
            assert all(answer["status"] in (200, 201) for answer in devices.import_devices(lines))

    def accepted(self, send: str) -> list[str]:
        return sorted(line["token"] for line in self.installation.accepted() if line["send"] == send and line["status"] == 200)

    def test_a_send_reaches_its_user_and_ends_with_a_receipt(self) -> None:
        publisher = self.publisher()
        publication = publisher.publish(to("u7"), lane=Lane.EXPRESS)
        receipt = publisher.final_receipt(publication, within=30)
        self.assertEqual((receipt.kind, receipt.planned, receipt.send), (RECEIPT_KIND_FINAL, 2, publication.send))
        self.assertEqual(self.accepted(publication.send), ["token-57", "token-7"])
        # Another process may read the receipts.
        again = Publication(**json.loads(json.dumps(dataclasses.asdict(publication))))
        self.assertEqual(self.publisher().final_receipt(again, within=5).id, receipt.id)

    def test_an_audience_has_all_its_recipients_in_receipts(self) -> None:
        publisher = self.publisher()
        publication = publisher.publish(command(receipt_level=3), lane="bulk")
        found: list[str] = []
        for receipt in publisher.receipts(publication, within=60):
            if receipt.kind == RECEIPT_KIND_RECIPIENTS:
                found += [recipient.device for recipient in receipt.recipients]
        self.assertEqual(receipt.kind, RECEIPT_KIND_FINAL)
        self.assertEqual(sorted(found), sorted(f"d{n}" for n in range(100)))
        self.assertEqual(sum(count.count for count in receipt.counts), 100)

    def test_a_dry_run_and_a_refusal_end_too(self) -> None:
        publisher = self.publisher()
        dry = publisher.final_receipt(publisher.publish(command(dry_run=True)), within=30)
        self.assertEqual((dry.kind, dry.planned), (RECEIPT_KIND_DRY_RUN, 100))
        # The grammar of an expression is left to the dispatcher, which answers by a receipt.
        refused = publisher.final_receipt(publisher.publish(command(target={"expression": "locale in"})), within=30)
        self.assertEqual((refused.kind, refused.problem.code), (RECEIPT_KIND_REFUSED, "invalid_expression"))

    def test_no_receipt_in_time_says_what_to_look_at(self) -> None:
        publisher = self.publisher()
        publication = publisher.publish(to("u1", not_before_ms=int((time.time() + 3_600) * 1_000)))
        with self.assertRaisesRegex(TimedOut, f"apus watch {publication.send}"):
            publisher.final_receipt(publication, within=0.5)

    def test_asyncio_publishes_many_at_once(self) -> None:
        async def publish() -> int:
            async with AsyncPublisher(self.installation.url) as publisher:
                publications = await asyncio.gather(*(publisher.publish(to(f"u{n}"), lane=Lane.EXPRESS) for n in range(50)))
                receipts = await asyncio.gather(*(publisher.final_receipt(each, within=60) for each in publications))
                self.assertEqual({receipt.send for receipt in receipts}, {each.send for each in publications})
                return sum(int(receipt.planned) for receipt in receipts)

        self.assertEqual(asyncio.run(publish()), 100)

    def test_threads_share_a_publisher(self) -> None:
        publisher = self.publisher()
        sends: list[str] = []
        threads = [
            threading.Thread(target=lambda: sends.extend(publisher.publish(to(f"u{n}")).send for n in range(20))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(sends)), 160)

    def test_a_cursor_goes_on_where_another_reader_stopped(self) -> None:
        for stream in (None, "apus:receipts:python"):
            with self.subTest(stream=stream):
                publisher = self.publisher()
                reader = publisher.follow(stream, start="oldest", idle=2)
                before = sum(1 for _ in reader) if stream is None else 0
                sends = [publisher.publish(to("u3", reply_to=stream or "")).send for _ in range(60)]
                seen: list[str] = []
                cursor = ""
                for received in publisher.follow(stream, start="oldest", idle=30):
                    if received.receipt.send in sends:
                        seen.append(received.receipt.send)
                        cursor = received.cursor
                    if len(seen) == 25:
                        break

                async def rest() -> None:
                    async with AsyncPublisher(self.installation.url) as other:
                        async for received in other.follow(stream, cursor=cursor, idle=30):
                            if received.receipt.send in sends:
                                seen.append(received.receipt.send)
                            if len(seen) == 60:
                                break

                asyncio.run(rest())
                self.assertEqual(sorted(seen), sorted(sends), f"{before} stood before")

    def test_follow_begins_with_what_comes(self) -> None:
        publisher = self.publisher()
        publisher.final_receipt(publisher.publish(to("u4")), within=30)
        reader = publisher.follow(idle=30)
        timer = threading.Timer(0.5, lambda: sends.append(publisher.publish(to("u5", id="followed")).send))
        sends: list[str] = []
        timer.start()
        first = next(reader)
        timer.join()
        self.assertEqual(first.receipt.send, "followed")

    def test_the_code_of_the_article_works(self) -> None:
        article = (ROOT / "Sources/ApusPublisher/ApusPublisher.docc/Publishing.md").read_text()
        package, keep, plain, webhook = re.findall(r"```python\n(.*?)```", article, re.DOTALL)
        classes = self.installation.folder / "classes"
        classes.mkdir()
        protos = sorted(str(path.relative_to(ROOT / "Protos")) for path in (ROOT / "Protos").rglob("*.proto"))
        self.installation.run("protoc", "-I", str(ROOT / "Protos"), f"--python_out={classes}", *protos)
        at_hand = package.replace("redis://127.0.0.1:6379", self.installation.url).replace('"ada"', '"u9"')
        follow = keep.replace("redis://127.0.0.1:6379", self.installation.url) + (
            "assert asyncio.run(keep('cursor', idle=2)) > 0\nassert asyncio.run(keep('cursor', idle=0.1)) == 0\n"
        )
        # All in one process: classes of one's own of the same schema do not disturb the package's.
        program = "\n".join([at_hand, plain, follow, webhook, webhook_check])
        paths = f"{classes}:{':'.join(path for path in sys.path if path)}"
        self.run_python(program, PYTHONPATH=paths)

    def run_python(self, program: str, **environment: str) -> None:
        self.installation.run(sys.executable, "-B", "-W", "error::SyntaxWarning", "-c", program, **environment)

    def test_an_unknown_app_is_refused_at_once(self) -> None:
        with self.assertRaisesRegex(InvalidCommand, "did you mean demo"):
            self.publisher().publish(to("u1", app="demmo"))


class RegistrationTests(Case):
    services = ("registration",)

    def test_a_device_lives(self) -> None:
        client = self.client(self.key("register"))
        self.assertIsNone(client.device("phone"))
        made = client.put_device(
            "phone", {"provider": "apns", "token": "ab" * 32, "topics": ["a"], "attributes": {"locale": "en-GB"}}, only_new=True
        )
        self.assertEqual((made["device"], made["topics"], made["user"]), ("phone", ["a"], None))
        with self.assertRaises(RegistrationError) as caught:
            client.put_device("phone", {"provider": "apns", "token": "ab" * 32}, only_new=True)
        self.assertEqual((caught.exception.status, caught.exception.kind), (412, "precondition-failed"))
        client.subscribe("phone", "b")
        client.unsubscribe("phone", "a")
        self.assertEqual(client.topics("phone"), ["b"])
        self.assertEqual(sorted(client.change_topics("phone", subscribe=["c", "d"], unsubscribe=["b"])), ["c", "d"])
        self.assertEqual(client.set_topics("phone", ["e"]), ["e"])
        client.log_in("ada", "phone")
        self.assertEqual([device["device"] for device in client.user_devices("ada")], ["phone"])
        self.assertEqual(client.change_device("phone", {"badge": 3, "attributes": {"country": "NZ", "locale": None}})["badge"], 3)
        self.assertEqual((client.device("phone") or made)["attributes"], {"country": "NZ"})
        client.put_activity("phone", "score", kind="live_activity_update", token="cd" * 32)
        self.assertEqual([each["activity"] for each in (client.device("phone") or made)["activities"]], ["score"])
        client.delete_activity("phone", "score")
        client.log_out("ada", "phone")
        self.assertEqual(client.user_devices("ada"), [])
        client.delete_device("phone")
        self.assertIsNone(client.device("phone"))

    def test_ids_are_quoted_in_paths(self) -> None:
        client = self.client(self.key("register"))
        client.put_device("a/b%?#", {"provider": "fcm", "token": "quoted", "user": "u/1"})
        self.assertEqual([device["device"] for device in client.user_devices("u/1")], ["a/b%?#"])
        client.delete_user("u/1")
        self.assertIsNone(client.device("a/b%?#"))
        with self.assertRaisesRegex(RegistrationError, "no id"):
            client.device("..")

    def test_an_import_answers_each_line_with_what_is_wrong(self) -> None:
        client = self.client(self.key("register"))

        def lines() -> Iterator[ImportedDevice]:
            for number in range(2_000):
                yield {"device": f"i{number}", "provider": "fcm", "token": f"imported-{number}"}
            yield {"device": "bad", "provider": "apns", "token": "no"}

        answers = list(client.import_devices(lines()))
        self.assertEqual(len(answers), 2_001)
        (bad,) = [answer for answer in answers if answer["status"] >= 400]
        self.assertEqual((bad["line"], bad["errors"][0]["pointer"]), (2_001, "#/token"))

    def test_asyncio_does_the_same(self) -> None:
        async def register() -> None:
            async with AsyncRegistrationClient(self.installation.api, app=APP, key=self.key("register")) as client:
                await asyncio.gather(
                    *(client.put_device(f"a{n}", {"provider": "fcm", "token": f"async-{n}", "user": "bob"}) for n in range(20))
                )
                self.assertEqual(len(await client.user_devices("bob")), 20)
                answers = [answer async for answer in client.import_devices([{"device": "a0", "provider": "fcm", "token": "other"}])]
                self.assertEqual([answer["line"] for answer in answers], [1])
                await client.delete_user("bob")
                self.assertEqual(await client.user_devices("bob"), [])

        asyncio.run(register())

    def test_a_publisher_with_a_name_needs_no_more_than_its_own_mailboxes(self) -> None:
        line = (ROOT / "Scripts/deploy/redis/apus-app-publisher.acl").read_text().replace("apus-app-publisher", "shop")
        rules = [">a longer password" if word == ">PASSWORD" else word for word in line.split()[2:]]
        with installation() as made:
            made.redis.cli("acl", "setuser", "shop", *rules)
            with Publisher(made.url, name="shop", username="shop", password="a longer password") as publisher:
                publication = publisher.publish(command(id="order-17"), lane=Lane.EXPRESS)
                self.assertEqual(publication.receipts_stream, "apus:receipts:shop")
                # A dispatcher looks whether a command was published before.
                self.assertFalse(publisher.publish(command(id="order-17"), lane=Lane.EXPRESS).is_duplicate)
                tag = home_tag(APP, "order-17", publisher._known.shards)
                self.assertEqual(made.redis.cli("xlen", f"{tag}in:express:shop"), "2")
                with self.assertRaises(TimedOut):
                    publisher.final_receipt(publication, within=0.1)
                self.assertEqual(list(publisher.follow(idle=0.1)), [])
                again = SendReceipt(id="1", send="order-17", app=APP, duplicate_of="order-17", kind=RECEIPT_KIND_REFUSED)
                final = SendReceipt(id="2", send="order-17", app=APP, kind=RECEIPT_KIND_FINAL)
                connection = redis.from_url(made.url)
                for receipt in (again, final):
                    connection.xadd("apus:receipts:shop", {"m": receipt.SerializeToString()})
                self.assertEqual(publisher.final_receipt(publication, within=10).id, "2")
            with Publisher(made.url, username="shop", password="a longer password") as publisher:
                with self.assertRaises(Refused):
                    publisher.publish(command())
            with self.assertRaisesRegex(ValueError, "1 to 64 of the characters"):
                Publisher(made.url, name="a:b")

    def test_errors_say_the_cure(self) -> None:
        with self.assertRaisesRegex(RegistrationError, "apus key create"):
            self.client("wrong").put_device("p", {"provider": "fcm", "token": "t"})
        with self.assertRaisesRegex(RegistrationError, "register is for devices"):
            self.client(self.key("publish")).put_device("p", {"provider": "fcm", "token": "t"})
        with self.assertRaises(RegistrationError) as caught:
            self.client(self.key("register")).put_device("p", {"provider": "fcm", "tokn": "t"})  # type: ignore[typeddict-unknown-key]
        self.assertIn("did you mean token", str(caught.exception))
        self.assertIn("#/tokn", [error["pointer"] for error in caught.exception.errors])
        self.assertTrue(caught.exception.request)
        with RegistrationClient("http://127.0.0.1:9", app=APP, key="k") as client:
            with self.assertRaisesRegex(RegistrationError, "does not answer"):
                client.device("p")
        with self.assertRaisesRegex(RegistrationError, "must begin with http"):
            RegistrationClient("localhost:8180", app=APP, key="k")


#: A time to begin that services take: a year ahead at most.
NEXT_MONTH = int((time.time() + 30 * 86_400) * 1_000)
#: Commands of every kind, to compare the package with the services.
COMMANDS: list[dict[str, Any]] = [
    {},
    {"receipt_level": 3, "delivery": 2, "rate_per_second": 300, "not_before_ms": NEXT_MONTH, "reply_to": "apus:receipts:demo"},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "dry_run": True},
    {"target": {"devices": {"ids": ["a", "b"]}}},
    {"target": {"condition": "'a' in topics"}},
    {"target": {"expression": "locale in ['en']"}},
    {"target": {"everyone": {}}},
    {"target": {"everyone": {"providers": [1, 2, 3]}}},
    {"target": {"fcm_topic": "t"}},
    {"target": {"fcm_condition": "'a' in topics"}},
    {"target": {"fcm_group": "g"}},
    {"target": {"apns_channel": {"channel_id": "Y2hhbm5lbA=="}}},
    {"target": {"apns_channel": {"channel_id": "Y2hhbm5lbA==", "environment": 2, "stores_latest": True}}},
    {
        "target": {
            "addresses": {
                "addresses": [
                    {"provider": 1, "token": "ab" * 32, "environment": 2, "kind": 3, "locale": "fr"},
                    {"provider": 3, "token": "https://push.example/1", "webpush_p256dh": b"\4" + b"p" * 64, "webpush_auth": b"a" * 16},
                ]
            }
        }
    },
    {
        "notification": {
            "title": "Grüße 👋",
            "body_loc_key": "k",
            "body_loc_args": ["one", "", "three"],
            "data": {"z": "1", "a": "", "é": "ü", "B": "x" * 300},
            "sound": {"name": "default", "critical": True, "volume": 0},
            "badge_set": 0,
            "priority": 3,
            "ttl_ms": 0,
            "interruption_level": 3,
            "relevance_score": 0.5,
            "content_available": True,
            "variants": [{"locale": "fr", "title": "Salut"}, {"locale": "pt-BR", "body": "Olá"}],
            "apns_json": '{"aps": {}}',
            "android_style": 2,
        }
    },
    {"notification": {"sound": {"name": "bing"}, "badge_increment": 2, "expires_at_ms": 1_900_000_000_000, "data": {"k": "v"}}},
    {
        "notification": {
            "kind": 8,
            "live_activity": {
                "event": 2, "activity_id": "score", "content_state_json": '{"a": 1}', "stale_at_ms": 1_900_000_000_000, "dismiss_at_ms": 1
            },
        }
    },
]


class ServiceRulesTests(Case):
    """The package's rules and digests against those of the services, with nobody who takes a command out of its mailbox."""

    services = ("registration",)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.admin = cls.key()

    def post(self, sent: SendCommand) -> tuple[int, dict[str, Any]]:
        """Publishes over HTTP."""
        request = urllib.request.Request(
            f"{self.installation.api}/v1/apps/{APP}/sends",
            sent.SerializeToString(),
            {"authorization": f"Bearer {self.admin}", "content-type": "application/protobuf", "accept": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def test_the_same_command_is_the_same_send_to_the_services(self) -> None:
        publisher = self.publisher()
        for index, fields in enumerate(COMMANDS):
            with self.subTest(fields=fields):
                sent = command(id=f"same-{index}", **fields)
                self.assertFalse(publisher.publish(sent).is_duplicate)
                self.assertTrue(publisher.publish(sent).is_duplicate)
                self.assertEqual(self.post(sent), (202, {"send": f"same-{index}", "duplicate": True}))
                other = command(**{**fields, "id": f"same-{index}"})
                other.rate_per_second += 1
                self.assertEqual(self.post(other)[0], 409)
                with self.assertRaises(Conflict) as caught:
                    publisher.publish(other)
                self.assertEqual(caught.exception.send, f"same-{index}")

    def test_what_was_published_over_http_is_a_duplicate_here(self) -> None:
        for index, fields in enumerate(COMMANDS):
            sent = command(**fields, id=f"http-{index}")
            self.assertEqual(self.post(sent), (202, {"send": f"http-{index}", "duplicate": False}))
            self.assertTrue(self.publisher().publish(sent).is_duplicate)

    def test_a_key_names_one_send_whatever_id_it_comes_with(self) -> None:
        first = self.publisher().publish(command(idempotency_key="order 17"))
        second = self.publisher().publish(command(idempotency_key="order 17"))
        self.assertEqual((second.is_duplicate, second.send), (True, first.send))

    def test_a_key_that_was_given_over_http_is_another(self) -> None:
        keyed = command(idempotency_key="order 18")
        status, answer = self.post(keyed)
        self.assertEqual((status, answer["duplicate"]), (202, False))
        publication = self.publisher().publish(keyed)
        self.assertFalse(publication.is_duplicate)
        self.assertNotEqual(publication.send, answer["send"])
        self.assertEqual(self.post(keyed), (202, {"send": answer["send"], "duplicate": True}))
        self.assertEqual(self.publisher().publish(keyed).send, publication.send)

    def test_what_the_package_refuses_the_services_refuse(self) -> None:
        for fields, code, field in INVALID:
            if field == "app":
                continue  # Its own path says another.
            with self.subTest(field=field, code=code):
                status, problem = self.post(command(**fields))
                self.assertIn(status, (400, 422), problem)

    def test_the_command_stands_in_the_home_shards_mailbox(self) -> None:
        publication = self.publisher().publish(command(id="order-17"), lane=Lane.EXPRESS)
        tag = publication.receipts_stream.removesuffix("receipts")
        self.assertEqual(self.installation.redis.cli("xlen", f"{tag}in:express"), "1")

    def test_a_full_mailbox_says_when_to_come_back(self) -> None:
        publisher = self.publisher()
        tag = publisher.publish(command(id="full")).receipts_stream.removesuffix("receipts")
        mailbox = f"{tag}in:express"
        self.installation.redis.cli("eval", "for i = 1, 10000 do redis.call('XADD', KEYS[1], '*', 'm', '') end", "1", mailbox)
        with self.assertRaises(MailboxFull) as caught:
            publisher.publish(at_home(tag, publisher), lane=Lane.EXPRESS)
        self.assertTrue(0.1 <= caught.exception.retry_after <= 30)
        self.installation.redis.cli("del", mailbox)


def at_home(tag: str, publisher: Publisher) -> SendCommand:
    """Returns a command whose home is the shard of a tag."""
    for number in range(10_000):
        if home_tag(APP, f"at-home-{number}", publisher._known.shards) == tag:
            return command(id=f"at-home-{number}")
    raise AssertionError("no id has that home")


class RedisTests(unittest.TestCase):
    """Redis that ends, refuses, or promises."""

    def test_a_redis_that_ends_makes_no_second_send(self) -> None:
        with installation() as made, Publisher(made.url, patience=30) as publisher:
            publisher.publish(command(id="before"))
            with Publisher(made.url, patience=0.3) as impatient:
                impatient.publish(command(id="too"))
                made.redis.stop(signal.SIGKILL)
                with self.assertRaises(Unavailable) as caught:
                    impatient.publish(command())
                lost = caught.exception.command
                assert lost is not None and lost.id
            threading.Timer(1, made.redis.start).start()
            during = publisher.publish(command(id="during"))
            self.assertFalse(during.is_duplicate)
            self.assertFalse(publisher.publish(lost).is_duplicate)
            self.assertTrue(publisher.publish(lost).is_duplicate)

    def test_a_replica_acknowledges_and_a_frozen_one_does_not(self) -> None:
        with installation() as made, Publisher(made.url, acknowledgement_patience=0.3) as publisher:
            self.assertEqual(publisher.publish(command()).acknowledgement, Acknowledgement.MEMORY)
            replica = Redis(made.folder, "--replicaof", "127.0.0.1", str(made.redis.port))
            made.servers.append(replica)
            eventually(lambda: "state=online" in made.redis.cli("info", "replication"))
            publisher._known.replica_news.clear()
            self.assertEqual(publisher.publish(command()).acknowledgement, Acknowledgement.REPLICA)
            replica.process.send_signal(signal.SIGSTOP)
            unsure = publisher.publish(command(id="unsure"))
            self.assertEqual((unsure.acknowledgement, unsure.is_acknowledged), (Acknowledgement.MEMORY, False))
            replica.process.send_signal(signal.SIGCONT)
            sure = publisher.publish(command(id="unsure"))
            self.assertEqual((sure.is_duplicate, sure.is_acknowledged), (True, True))

    def test_many_at_once_share_a_limited_number_of_connections(self) -> None:
        async def publish(url: str) -> set[str]:
            async with AsyncPublisher(url, patience=60) as publisher:
                publications = await asyncio.gather(*(publisher.publish(command()) for _ in range(1_000)))
                return {each.send for each in publications}

        with installation() as made:
            self.assertEqual(len(asyncio.run(publish(made.url))), 1_000)
            received = int(re.findall(r"total_connections_received:(\d+)", made.redis.cli("info", "stats"))[0])
            self.assertLess(received, CONNECTIONS_MAX + 50)

    def test_fsync_is_promised_only_where_redis_keeps_it(self) -> None:
        with installation() as made, Publisher(made.url) as publisher:
            if made.redis.cli("command", "info", "waitaof"):
                self.skipTest("this Redis has WAITAOF")
            with self.assertRaisesRegex(AcknowledgementUnavailable, "appendfsync always"):
                publisher.publish(command(), acknowledgement=Acknowledgement.FSYNC)
            made.redis.cli("config", "set", "appendfsync", "always")
            self.assertTrue(publisher.publish(command(), acknowledgement="fsync").is_acknowledged)

    def test_the_user_of_publishers_may_publish_and_read_receipts(self) -> None:
        line = (ROOT / "Scripts/deploy/redis/apus-publisher.acl").read_text().replace("receipts:apus-publisher", "receipts:shop")
        rules = [">a longer password" if word == ">PASSWORD" else word for word in line.split()[2:]]
        with installation() as made:
            made.redis.cli("acl", "setuser", "shop-python", *rules)
            with Publisher(made.url, username="shop-python", password="a longer password") as publisher:
                sent = command(idempotency_key="k", reply_to="apus:receipts:shop")
                publication = publisher.publish(sent, within=1)
                self.assertTrue(publisher.publish(sent).is_duplicate)
                with self.assertRaises(TimedOut):
                    publisher.final_receipt(publication, within=0.1)
                with self.assertRaises(TimedOut):
                    publisher.final_receipt(publisher.publish(command()), within=0.1)
                self.assertEqual(list(publisher.follow(idle=0.1)), [])
            # Without the list of routes and the state of replicas it publishes too, and the receipt tells the rest.
            made.redis.cli("acl", "setuser", "shop-python", "-hkeys", "-info")
            with Publisher(made.url, username="shop-python", password="a longer password") as publisher:
                self.assertEqual(publisher.publish(command(app="other")).acknowledgement, Acknowledgement.MEMORY)

    def test_errors_say_the_cure(self) -> None:
        with installation() as made:
            with Publisher(made.url, username="nobody", password="wrong") as publisher:
                with self.assertRaisesRegex(Refused, "Check the user and the password"):
                    publisher.publish(command())
            made.redis.cli("function", "flush")
            with Publisher(made.url) as publisher, self.assertRaisesRegex(NotInitialized, "apus init"):
                publisher.publish(command())
            made.redis.cli("flushall")
            with Publisher(made.url) as publisher, self.assertRaisesRegex(NotInitialized, "apus init"):
                publisher.publish(command())
        with Publisher("redis://127.0.0.1:1", patience=0.2) as publisher, self.assertRaisesRegex(Unavailable, "cannot be reached"):
            publisher.publish(command())


class SentinelTests(unittest.TestCase):
    """A master that Sentinels watch."""

    @staticmethod
    def calls(server: Redis) -> int:
        """Returns how many functions a server has been called with."""
        found = re.search(r"cmdstat_fcall:calls=([0-9]+)", server.cli("info", "commandstats"))
        return int(found[1]) if found else 0

    def test_publications_follow_the_master_and_the_old_one_gets_none(self) -> None:
        with sentinels() as made, Publisher(made.url, patience=60) as publisher:
            before = publisher.publish(command(id="before"))
            self.assertEqual(before.acknowledgement, Acknowledgement.REPLICA)
            made.master.stop(signal.SIGKILL)
            during = publisher.publish(command(id="during"))
            # The new master has no replica: it is told that a replica was there before.
            self.assertEqual((during.is_duplicate, during.is_acknowledged), (False, False))
            self.assertTrue(publisher.publish(command(id="before")).is_duplicate)
            # It calls itself a master for some seconds.
            made.master.start()

            async def publish() -> list[Publication]:
                async with AsyncPublisher(made.url, patience=60) as other:
                    commands = [command(id=f"after-{number}") for number in range(20)]
                    return list(await asyncio.gather(*(other.publish(each) for each in commands)))

            self.assertEqual({each.is_duplicate for each in asyncio.run(publish())}, {False})
            self.assertEqual(self.calls(made.master), 0)
            self.assertGreaterEqual(self.calls(made.replica), 20)

    def test_a_wrong_name_and_a_missing_password_name_their_cure(self) -> None:
        with sentinels() as made:
            for wrong, words in (
                (made.url.replace("/mymaster", "/other"), "no Sentinel has a master named 'other'"),
                (made.url.partition("?")[0], "sentinel_password"),
            ):
                with Publisher(wrong, patience=1) as publisher, self.assertRaisesRegex(Refused, words):
                    publisher.publish(command())


class RedisClusterTests(Case):
    masters = 3
    services = ("dispatcher", "feedback")

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        for user in range(20):
            cls.installation.apus(
                "device", "put", "--app", APP, f"d{user}", "--provider", "fcm", "--token", f"token-{user}", "--user", f"u{user}"
            )

    def test_sends_and_receipts_of_all_masters(self) -> None:
        publisher = self.publisher()
        sends = {publisher.publish(to(f"u{n % 20}")).send for n in range(60)}
        seen: set[str] = set()
        for received in publisher.follow(start="oldest", idle=60):
            seen |= {received.receipt.send} & sends
            if len(seen) == 60:
                break
        self.assertEqual(seen, sends)
        self.assertEqual(len({publisher._nodes.owner(slot) for slot in range(16_384)}), 3)

        async def publish() -> int:
            async with AsyncPublisher(self.installation.url) as other:
                receipts = [await other.final_receipt(await other.publish(to(f"u{n}")), within=60) for n in range(20)]
                return sum(int(receipt.planned) for receipt in receipts)

        self.assertEqual(asyncio.run(publish()), 20)

    def test_a_master_that_is_away_keeps_nobody_from_the_others(self) -> None:
        servers = self.installation.servers
        for server in servers:
            server.cli("config", "set", "cluster-require-full-coverage", "no")
        shards = self.publisher()
        shards.publish(to("u1"))
        away = shards._nodes.owner(slot_of("apus:routes"))
        assert away is not None
        # Its own slots are what it has; the sizes and the list of apps may be among them.
        ids = (f"elsewhere-{number}" for number in range(1_000))
        home = next(each for each in ids if shards._nodes.owner(slot_of(home_tag(APP, each, shards._known.shards))) != away)
        victim = next(server for server in servers if server.port == away.port)
        victim.process.send_signal(signal.SIGSTOP)
        try:
            publisher = self.publisher(patience=20, socket_timeout=1.0, socket_connect_timeout=1.0)
            self.assertEqual(publisher.publish(to("u1", id=home)).send, home)
        finally:
            victim.process.send_signal(signal.SIGCONT)

    def test_slots_move_while_commands_are_published(self) -> None:
        publisher = self.publisher(patience=60)
        sends = [publisher.publish(to("u1")).send]
        ids = [server.cli("cluster", "myid") for server in self.installation.servers]
        done = threading.Event()
        errors: list[Exception] = []

        def publish() -> None:
            try:
                while not done.is_set():
                    sends.append(publisher.publish(to("u1")).send)
            except Exception as error:  # noqa: BLE001  the test fails with it below
                errors.append(error)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            self.installation.redis.cli(
                "--cluster", "reshard", f"127.0.0.1:{self.installation.redis.port}", "--cluster-from", ids[0],
                "--cluster-to", ids[1], "--cluster-slots", "1200", "--cluster-yes",
            )
        finally:
            done.set()
            thread.join()
        self.assertEqual(errors, [])
        sends.append(publisher.publish(to("u1")).send)
        self.assertEqual(len(set(sends)), len(sends))
        seen: dict[str, set[str]] = {}
        for received in publisher.follow(start="oldest", idle=60):
            if received.receipt.kind == RECEIPT_KIND_FINAL and received.receipt.send in sends:
                seen.setdefault(received.receipt.send, set()).add(received.receipt.id)
            if len(seen) == len(sends):
                break
        self.assertEqual(set(seen), set(sends))


if __name__ == "__main__":
    unittest.main()
