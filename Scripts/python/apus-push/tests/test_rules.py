"""The pure parts: keys and digests, and the rules that are checked before anything is written."""

from __future__ import annotations

import re
import time
import unittest
from typing import Any

import apus_push
from apus_push import InvalidCommand, SendCommand
from apus_push._identity import content_digest, home_text, key_digest, pack_fields
from apus_push._keyspace import home_tag, shard_tags, slot_of
from apus_push._rules import check, check_app
from installation import ROOT

NOW = 1_800_000_000.0


def command(**fields: Any) -> SendCommand:
    """Returns a command with a topic and a title, unless the fields say otherwise."""
    return SendCommand(**{"app": "demo", "target": {"topic": "news"}, "notification": {"title": "Swifts"}, **fields})


class KeyspaceTests(unittest.TestCase):
    def test_slots_are_those_of_redis(self) -> None:
        self.assertEqual(slot_of("123456789"), 0x31C3)
        self.assertEqual(slot_of("{user1000}.following"), slot_of("user1000"))
        self.assertEqual(slot_of("foo{}{bar}"), slot_of("foo{}{bar}"))

    def test_tags_are_those_of_the_article(self) -> None:
        article = (ROOT / "Sources/ApusPublisher/ApusPublisher.docc/Publishing.md").read_text()
        (line,) = re.findall(r"^(?:\{q\d+\} ?){16}$", article, re.MULTILINE)
        self.assertEqual(shard_tags(16), tuple(line.split()))
        for shards in (1, 2, 16, 60, 1_024):
            slots = [slot_of(tag) for tag in shard_tags(shards)]
            self.assertEqual([slot * shards // 16_384 for slot in slots], list(range(shards)))

    def test_the_home_is_that_of_the_article(self) -> None:
        self.assertEqual(home_tag("shop", "order-17", 16), "{q63}")


class IdentityTests(unittest.TestCase):
    def test_id_time_and_trace_do_not_count(self) -> None:
        one = command(id="a", published_at_ns=1, traceparent="00-1")
        self.assertEqual(content_digest(one), content_digest(command(id="b")))

    def test_an_unspecified_value_is_the_default(self) -> None:
        said = command(receipt_level="RECEIPT_LEVEL_SUMMARY", delivery="DELIVERY_AT_LEAST_ONCE")
        self.assertEqual(content_digest(said), content_digest(command()))
        self.assertNotEqual(content_digest(command(rate_per_second=1)), content_digest(command()))

    def test_a_key_stands_for_the_id(self) -> None:
        self.assertEqual(key_digest(command(id="a"))[:1], b"i")
        self.assertEqual(key_digest(command(id="a", idempotency_key="k"))[:1], b"k")
        self.assertEqual(home_text(command(id="a", idempotency_key="k")), "k")
        self.assertEqual(len(key_digest(command(id="a"))), 12)

    def test_fields_are_messagepack(self) -> None:
        self.assertEqual(pack_fields("ab", 7, 300), b"\xa2ab\x07\xd3" + (300).to_bytes(8, "big"))
        for length, head in ((31, b"\xbf"), (32, b"\xd9\x20"), (256, b"\xda\x01\x00"), (65_536, b"\xdb\x00\x01\x00\x00")):
            self.assertEqual(pack_fields(b"x" * length), head + b"x" * length)


#: Commands that nobody would take: what is wrong, and the field that says so.
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"app": "De_mo"}, "invalid_app", "app"),
    ({"id": "a b"}, "invalid_id", "id"),
    ({"reply_to": "mine"}, "invalid_reply_to", "reply_to"),
    ({"not_before_ms": int(NOW)}, "invalid_time", "not_before_ms"),
    ({"not_before_ms": 4_102_444_800_000}, "too_late", "not_before_ms"),
    ({"not_before_ms": 4_102_444_800_000, "notification": {"ttl_ms": 1}}, "too_late", "not_before_ms"),
    ({"target": {}}, "malformed", "target"),
    ({"target": {"users": {}}}, "no_recipients", "target.users"),
    ({"target": {"users": {"ids": ["a b"]}}}, "invalid_user", "target.users[0]"),
    ({"target": {"devices": {"ids": ["a", "é"]}}}, "invalid_device", "target.devices[1]"),
    ({"target": {"users": {"ids": ["u"] * 1_001}}}, "malformed", "target.users.ids"),
    ({"target": {"addresses": {}}}, "no_recipients", "target.addresses"),
    ({"target": {"topic": "a/b"}}, "invalid_topic", "target.topic"),
    (
        {"target": {"addresses": {"addresses": [{"provider": 2, "token": "t", "kind": 3}]}}},
        "invalid_kind",
        "target.addresses.addresses[0].kind",
    ),
    ({"target": {"addresses": {"addresses": [{"provider": 2}]}}}, "malformed", "target.addresses.addresses[0].token"),
    ({"notification": {"title": "x" * 4_097}}, "malformed", "notification.title"),
    ({"notification": {"title": "a\0b"}}, "malformed", "notification.title"),
    ({"notification": {"variants": [{"title": "t"}]}}, "malformed", "notification.variants[0].locale"),
    ({"notification": {"data": {"k": "v" * 4_097}}}, "malformed", 'notification.data["k"]'),
    ({"notification": {"data": {str(n): "" for n in range(65)}}}, "malformed", "notification.data"),
    ({"notification": {"sound": {"volume": 2}}}, "malformed", "notification.sound.volume"),
    ({"notification": {"expires_at_ms": 1_700_000_000_000}}, "expired", "notification.expires_at_ms"),
    ({"notification": {"live_activity": {"event": 2}}}, "missing_value", "notification.live_activity.activity_id"),
    (
        {"target": {"addresses": {"addresses": [{"provider": 2, "token": "t"}]}}, "notification": {"badge_increment": 1}},
        "contradiction",
        "notification.badge_increment",
    ),
]


class RuleTests(unittest.TestCase):
    def test_what_is_right_passes(self) -> None:
        check(command(), NOW)
        check(command(id="a.b:c-d_1", target={"topic": "/topics/news"}, not_before_ms=1_810_000_000_000), NOW)
        check(command(notification={"ttl_ms": 0}), NOW)
        check(command(notification={"data": {f"{n}": "" for n in range(64)}, "apns_json": '{"aps": {}}'}), NOW)
        check(command(target={"everyone": {}}), NOW)

    def test_each_broken_rule_names_its_field(self) -> None:
        for fields, code, field in INVALID:
            with self.subTest(field=field, code=code), self.assertRaises(InvalidCommand) as caught:
                check(command(**fields), NOW)
            self.assertEqual((caught.exception.code, caught.exception.field), (code, field))
            self.assertTrue(str(caught.exception).startswith(field))

    def test_raw_json_is_an_object(self) -> None:
        for text in ("[1]", "{"):
            with self.assertRaisesRegex(InvalidCommand, "notification.apns_json: must be a JSON object"):
                check(command(notification={"apns_json": text}), NOW)

    def test_a_time_in_another_unit_says_by_what_to_multiply(self) -> None:
        with self.assertRaisesRegex(InvalidCommand, "it looks like seconds: multiply it by 1000"):
            check(command(not_before_ms=int(time.time())), NOW)

    def test_a_send_may_be_scheduled_for_a_year_ahead_and_no_millisecond_more(self) -> None:
        latest = int(NOW * 1_000) + 366 * 86_400_000
        check(command(not_before_ms=latest), NOW)
        with self.assertRaisesRegex(InvalidCommand, "at most 366 days ahead are taken, until 2028-01-16T08:00:00Z"):
            check(command(not_before_ms=latest + 1), NOW)
        # It is counted from the time of publication.
        check(command(not_before_ms=latest + 1, published_at_ns=int(NOW * 1_000 + 1) * 1_000_000), NOW)

    def test_an_unknown_app_is_told_the_similar_one(self) -> None:
        check_app("demo", [])
        check_app("demo", ["demo", "shop"])
        with self.assertRaisesRegex(InvalidCommand, "there is no app dmeo; did you mean demo. The apps are demo, shop"):
            check_app("dmeo", ["shop", "demo"])


class PackageTests(unittest.TestCase):
    def test_every_exported_name_is_there_and_sorted(self) -> None:
        for name in apus_push.__all__:
            self.assertTrue(hasattr(apus_push, name), name)
        self.assertEqual(len(apus_push.__all__), len(set(apus_push.__all__)))

    def test_both_publishers_and_both_clients_have_the_same_methods(self) -> None:
        def methods(kind: type) -> dict[str, Any]:
            return {name: value for name, value in vars(kind).items() if not name.startswith("_")}

        for one, other in (
            (apus_push.Publisher, apus_push.AsyncPublisher),
            (apus_push.RegistrationClient, apus_push.AsyncRegistrationClient),
        ):
            self.assertEqual(list(methods(one)), list(methods(other)))
            for name, method in methods(one).items():
                theirs = methods(other)[name]
                self.assertTrue(method.__doc__ and theirs.__doc__, name)
                self.assertEqual(method.__code__.co_varnames[: method.__code__.co_argcount + method.__code__.co_kwonlyargcount],
                                 theirs.__code__.co_varnames[: theirs.__code__.co_argcount + theirs.__code__.co_kwonlyargcount], name)


if __name__ == "__main__":
    unittest.main()
