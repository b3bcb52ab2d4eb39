"""The rules of a command that can be checked without asking anybody: a mistake is told where it is made.

What is not checked here is told by a receipt of the kind ``refused``: the grammar of conditions and expressions, what no provider takes in a
notification, such as a picture whose address is no https URL, and what depends on a route, such as a provider's limits.
"""

from __future__ import annotations

import json
import re
import time
from difflib import get_close_matches
from typing import Any, Iterable

from google.protobuf.message import Message

from .errors import InvalidCommand
from .v1.common_pb2 import PROVIDER_APNS, PROVIDER_FCM, TOKEN_KIND_DEVICE, TOKEN_KIND_FID, TOKEN_KIND_UNSPECIFIED, TokenKind
from .v1.notification_pb2 import LIVE_ACTIVITY_EVENT_START
from .v1.send_pb2 import SendCommand

REPLY_PREFIX = "apus:receipts:"
COMMAND_BYTES_MAX = 256 * 1024
RECIPIENTS_MAX = 1_000
DATA_ENTRIES_MAX = 64
VARIANTS_MAX = 64
ARGUMENTS_MAX = 32
#: The end of the year 9999 in milliseconds.
TIME_MAX = 253_402_300_799_999
#: How many days ahead a send may be scheduled.
NOT_BEFORE_DAYS = 366

_TEXT, _NAME, _URL, _JSON, _TOPIC, _EXPRESSION = 4_096, 256, 2_048, 8_192, 908, 4_096
#: The most bytes of each text, by message and field.
_BYTES_MAX = {
    "SendCommand": {
        "id": 64,
        "app": 32,
        "idempotency_key": 128,
        "reply_to": 128,
        "traceparent": 128,
        "tracestate": 512,
    },
    "Target": {
        "topic": _TOPIC,
        "condition": _EXPRESSION,
        "expression": _EXPRESSION,
        "fcm_topic": _TOPIC,
        "fcm_condition": _EXPRESSION,
        "fcm_group": 4_096,
    },
    "BroadcastChannel": {"channel_id": _NAME},
    "Address": {"token": 4_096, "locale": 64},
    "Notification": {
        **dict.fromkeys(("title", "subtitle", "body", "title_loc_args", "subtitle_loc_args", "body_loc_args"), _TEXT),
        **dict.fromkeys(
            ("title_loc_key", "subtitle_loc_key", "body_loc_key", "launch_image", "category", "thread_id", "channel_id"), _NAME
        ),
        **dict.fromkeys(("tag", "color", "collapse_key", "target_content_id", "filter_criteria", "analytics_label"), _NAME),
        **dict.fromkeys(("image", "click_action"), _URL),
        **dict.fromkeys(("apns_json", "android_json", "webpush_json", "fcm_apns_json"), _JSON),
    },
    "Sound": {"name": _NAME},
    "LocaleVariant": {"locale": 64, "title": _TEXT, "subtitle": _TEXT, "body": _TEXT, "image": _URL, "click_action": _URL},
    "LiveActivity": {
        "content_state_json": _JSON,
        "attributes_type": _NAME,
        "attributes_json": _JSON,
        "input_push_channel": _NAME,
        "activity_id": _NAME,
    },
}
_REQUIRED = {
    ("Address", "token"),
    ("LocaleVariant", "locale"),
    ("BroadcastChannel", "channel_id"),
}

_APP = re.compile(r"[a-z0-9-]{1,32}")
_SEND = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_PRINTABLE = re.compile(r"[!-~]{1,128}")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9_.~%-]{1,900}")


def check(command: SendCommand, now: float) -> None:
    """Raises InvalidCommand for the first rule that a command breaks.

    :param now: the time of publication in seconds since 1970.
    """
    _match(_APP, command.app, "invalid_app", "app", "an app is 1 to 32 of the characters a-z, 0-9 and -")
    if command.id:
        _match(_SEND, command.id, "invalid_id", "id", "a send id is 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_', ':' and '-'")
    if command.reply_to and not command.reply_to.startswith(REPLY_PREFIX):
        raise InvalidCommand("invalid_reply_to", "reply_to", f'a reply stream must begin with "{REPLY_PREFIX}"')
    _check_unit(command.published_at_ns, 10**9, "nanoseconds", "published_at_ns")
    _check_unit(command.not_before_ms, 1_000, "milliseconds", "not_before_ms")
    notification = command.notification
    if notification.WhichOneof("expiry") == "expires_at_ms":
        _check_unit(notification.expires_at_ms, 1_000, "milliseconds", "notification.expires_at_ms", may_be_zero=False)
    audience = command.target.WhichOneof("audience")
    if audience is None:
        raise InvalidCommand("malformed", "target", "must name an audience: addresses, devices, users, topic, …")
    if notification.WhichOneof("badge") == "badge_increment" and audience == "addresses":
        raise InvalidCommand(
            "contradiction",
            "notification.badge_increment",
            "counts for registered devices; of an address nothing is remembered: use badge_set",
        )
    if notification.HasField("live_activity"):
        _check_live_activity(command, audience)
    _check_target(command, audience)
    _check_texts(command, "")
    _check_counts(command)
    _check_worth(command, now)
    if command.ByteSize() > COMMAND_BYTES_MAX:
        raise InvalidCommand("malformed", "", f"must have at most {COMMAND_BYTES_MAX} bytes")


def check_app(app: str, known: Iterable[str]) -> None:
    """Raises InvalidCommand for an app that no dispatcher has had.

    :param known: the apps of which dispatchers have configured routes; empty when none has run yet, so that nothing is known.
    """
    apps = sorted(set(known))
    if not apps or app in apps:
        return
    similar = get_close_matches(app, apps, n=1)
    suggestion = f"; did you mean {similar[0]}?" if similar else "."
    raise InvalidCommand("unknown_app", "app", f"there is no app {app}{suggestion} The apps are {', '.join(apps)}")


def _match(rule: re.Pattern[str], text: str, code: str, field: str, sentence: str) -> None:
    if not rule.fullmatch(text):
        raise InvalidCommand(code, field, f"is {json.dumps(text)}, but {sentence}")


_UNITS = (("nanoseconds", 10**9), ("microseconds", 10**6), ("milliseconds", 10**3), ("seconds", 1))
#: The earliest time that is plausible, 2001-09-09, in seconds: from there to the year 2286 a time has as many digits.
_SECONDS_MIN = 10**9


def _check_unit(value: int, scale: int, unit: str, field: str, may_be_zero: bool = True) -> None:
    """Refuses a time that was given in another unit: read as it is, it lies in the seventies."""
    if (value == 0 and may_be_zero) or value >= _SECONDS_MIN * scale:
        if value // (scale // 1_000) > TIME_MAX:
            raise InvalidCommand("malformed", field, f"must be {unit} between 1970 and the year 9999")
        return
    meant = next((each for each in _UNITS if value // each[1] >= _SECONDS_MIN), None)
    advice = (
        f"it looks like {meant[0]}: multiply it by {scale // meant[1]}"
        if meant
        else f"times of today have {len(str(_SECONDS_MIN * scale))} digits"
    )
    raise InvalidCommand("invalid_time", field, f"must be in {unit} since 1970, but is {value}; {advice}")


def _timestamp(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(milliseconds / 1_000))


def _check_worth(command: SendCommand, now: float) -> None:
    """Refuses a command that is worthless before it may be sent, or that would have to be kept for too long until then."""
    published = command.published_at_ns // 1_000_000 or int(now * 1_000)
    latest = published + NOT_BEFORE_DAYS * 86_400_000
    if command.not_before_ms > latest:
        times = [_timestamp(each) for each in (command.not_before_ms, latest)]
        detail = f"is {times[0]}; at most {NOT_BEFORE_DAYS} days ahead are taken, until {times[1]}"
        raise InvalidCommand("too_late", "not_before_ms", detail)
    expiry = command.notification.WhichOneof("expiry")
    if expiry == "ttl_ms":
        lifetime = command.notification.ttl_ms
        if not 0 <= lifetime <= TIME_MAX:
            raise InvalidCommand("malformed", "notification.ttl_ms", "must be 0 or more milliseconds")
        deadline = published + lifetime
        if lifetime == 0:
            return
    elif expiry == "expires_at_ms":
        deadline = command.notification.expires_at_ms
    else:
        return
    start = max(command.not_before_ms, published)
    if deadline <= start:
        word = "start" if start > published else "publication"
        detail = f"ends at {_timestamp(deadline)}, not after the {word} at {_timestamp(start)}"
        raise InvalidCommand("expired", f"notification.{expiry}", detail)


_JSON_FIELDS = ("apns_json", "android_json", "webpush_json", "fcm_apns_json")
_OF_DEVICES = ("devices", "users", "topic", "condition", "expression", "everyone")


def _check_live_activity(command: SendCommand, audience: str) -> None:
    activity = command.notification.live_activity
    path = "notification.live_activity"
    if activity.event == 0:
        raise InvalidCommand("malformed", f"{path}.event", "must be given: start, update or end")
    if activity.event != LIVE_ACTIVITY_EVENT_START and not activity.activity_id and audience in _OF_DEVICES:
        raise InvalidCommand(
            "missing_value", f"{path}.activity_id", "is required: a device has a token for each of its Live Activities"
        )


def _check_target(command: SendCommand, audience: str) -> None:
    target = command.target
    if audience == "addresses":
        addresses = target.addresses.addresses
        if not addresses:
            raise InvalidCommand("no_recipients", "target.addresses", "names no recipients")
        _check_count(len(addresses), "target.addresses.addresses", RECIPIENTS_MAX)
        for index, address in enumerate(addresses):
            _check_address(address, f"target.addresses.addresses[{index}]")
    elif audience in ("devices", "users"):
        ids = target.devices.ids if audience == "devices" else target.users.ids
        kind = audience[:-1]
        if not ids:
            raise InvalidCommand("no_recipients", f"target.{audience}", "names no recipients")
        _check_count(len(ids), f"target.{audience}.ids", RECIPIENTS_MAX)
        for index, each in enumerate(ids):
            rule = f"a {kind} id is 1 to 128 printable ASCII characters without spaces"
            _match(_PRINTABLE, each, f"invalid_{kind}", f"target.{audience}[{index}]", rule)
    elif audience == "topic":
        name = target.topic.removeprefix("/topics/")
        rule = "a topic is 1 to 900 of the characters a-z, A-Z, 0-9, '-', '_', '.', '~' and '%'"
        _match(_TOPIC_NAME, name, "invalid_topic", "target.topic", rule)
    elif audience in ("condition", "expression", "fcm_topic", "fcm_condition", "fcm_group"):
        if not getattr(target, audience):
            raise InvalidCommand("malformed", f"target.{audience}", "must be given")


def _check_address(address: Any, path: str) -> None:
    if address.provider == 0:
        raise InvalidCommand("malformed", f"{path}.provider", "must be given")
    kinds: set[Any] = {TOKEN_KIND_UNSPECIFIED, TOKEN_KIND_DEVICE}
    if address.provider == PROVIDER_APNS:
        kinds = set(TokenKind.values()) - {TOKEN_KIND_FID}
    elif address.provider == PROVIDER_FCM:
        kinds |= {TOKEN_KIND_FID}
    if address.kind not in kinds:
        raise InvalidCommand("invalid_kind", f"{path}.kind", "is no kind of token that this provider has")
    for name, count in (("webpush_p256dh", 65), ("webpush_auth", 16), ("application_server_key", 65)):
        if len(getattr(address, name)) not in (0, count):
            raise InvalidCommand("malformed", f"{path}.{name}", f"must have {count} bytes")


def _check_texts(message: Message, path: str) -> None:
    """Checks the length of every text, that none holds a NUL, and that raw JSON is an object."""
    name = message.DESCRIPTOR.name
    limits = _BYTES_MAX.get(name, {})
    for required, field_name in _REQUIRED:
        if required == name and not getattr(message, field_name):
            raise InvalidCommand("malformed", f"{path}{field_name}", "must be given")
    for field, value in message.ListFields():
        place = f"{path}{field.name}"
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                continue
            parts = [(place, value)] if isinstance(value, Message) else [(f"{place}[{i}]", part) for i, part in enumerate(value)]
            for part_place, part in parts:
                _check_texts(part, f"{part_place}.")
        elif field.name in limits:
            texts = [(place, value)] if isinstance(value, str) else [(f"{place}[{i}]", text) for i, text in enumerate(value)]
            for text_place, text in texts:
                _check_text(text, text_place, limits[field.name])
            if field.name in _JSON_FIELDS or field.name.endswith("_json"):
                _check_json(value, place)


def _check_text(text: str, field: str, bytes_max: int) -> None:
    if len(text.encode()) > bytes_max:
        raise InvalidCommand("malformed", field, f"must have at most {bytes_max} bytes")
    if "\0" in text:
        raise InvalidCommand("malformed", field, "must not hold a NUL")


def _check_json(text: str, field: str) -> None:
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError as error:
        raise InvalidCommand("malformed", field, f"must be a JSON object: {error}") from None
    if not is_object:
        raise InvalidCommand("malformed", field, "must be a JSON object")


def _check_counts(command: SendCommand) -> None:
    notification = command.notification
    _check_count(len(notification.variants), "notification.variants", VARIANTS_MAX)
    for name in ("title_loc_args", "subtitle_loc_args", "body_loc_args"):
        _check_count(len(getattr(notification, name)), f"notification.{name}", ARGUMENTS_MAX)
    _check_count(len(notification.data), "notification.data", DATA_ENTRIES_MAX)
    for key, value in notification.data.items():
        path = f"notification.data[{json.dumps(key)}]"
        if not key:
            raise InvalidCommand("malformed", path, "a key must not be empty")
        _check_text(key, path, _NAME)
        _check_text(value, path, _TEXT)
    if notification.sound.WhichOneof("volume_presence") and not 0 <= notification.sound.volume <= 1:
        raise InvalidCommand("malformed", "notification.sound.volume", "must be between 0 and 1")


def _check_count(count: int, field: str, most: int) -> None:
    if count > most:
        raise InvalidCommand("malformed", field, f"must have at most {most} elements, but has {count}")
