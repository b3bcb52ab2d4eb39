"""What makes two commands the same send: the digests that the function apus2_publish compares.

The digest is taken of one canonical encoding, the one of Apus' own services, and not of the bytes that a protobuf library writes:
libraries may differ in the order of a map, in the presence of an empty value, and in whether a default is written.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .v1.send_pb2 import SendCommand

_KEY_BYTES = 12
_DIGEST_BYTES = 8

#: The numbers that stand for an unspecified one, by message and field.
_DEFAULTS = {
    ("SendCommand", "receipt_level"): 2,
    ("SendCommand", "delivery"): 1,
    ("Address", "environment"): 1,
    ("Address", "kind"): 1,
    ("BroadcastChannel", "environment"): 1,
    ("Notification", "kind"): 1,
    ("Notification", "android_style"): 1,
    ("Notification", "fcm_apns_style"): 1,
    ("Notification", "fcm_webpush_style"): 1,
}

_VARINTS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
    FieldDescriptor.CPPTYPE_ENUM,
    FieldDescriptor.CPPTYPE_BOOL,
}


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _value(field: Any, value: Any) -> bytes:
    """Encodes one value of a field, with its number."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _delimited(field.number, canonical(value))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _delimited(field.number, value if isinstance(value, bytes) else value.encode())
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return _varint(field.number << 3 | 1) + struct.pack("<d", value)
    if field.cpp_type in _VARINTS:
        return _varint(field.number << 3) + _varint(int(value))
    raise AssertionError(f"no field of a command is like {field.full_name}")


def _entry(key: str, value: str) -> bytes:
    """Encodes an entry of a map as the message that it is, without what is empty."""
    return b"".join(_delimited(number, text.encode()) for number, text in ((1, key), (2, value)) if text)


def canonical(message: Message) -> bytes:
    """Encodes a message canonically: fields by number, maps by key, defaults where there is an unspecified number."""
    values: dict[int, bytes] = {}
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = sorted(value.items(), key=lambda entry: entry[0].encode())
            values[field.number] = b"".join(_delimited(field.number, _entry(*entry)) for entry in entries)
        elif isinstance(value, (str, bytes, int, float, Message)):
            values[field.number] = _value(field, value)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            values[field.number] = _delimited(field.number, b"".join(_varint(element) for element in value))
        else:
            values[field.number] = b"".join(_value(field, element) for element in value)
    for (name, field_name), number in _DEFAULTS.items():
        if message.DESCRIPTOR.name == name:
            place = message.DESCRIPTOR.fields_by_name[field_name].number
            values.setdefault(place, _varint(place << 3) + _varint(number))
    return b"".join(values[number] for number in sorted(values))


def content_digest(command: SendCommand) -> bytes:
    """Returns the digest of what is sent and to whom, without the id, the time and the trace."""
    content = SendCommand()
    content.CopyFrom(command)
    content.id = content.traceparent = content.tracestate = ""
    content.published_at_ns = 0
    return hashlib.sha256(canonical(content)).digest()[:_DIGEST_BYTES]


def key_digest(command: SendCommand) -> bytes:
    """Returns the digest of the app and the idempotency key, or else the id, that is known for a day."""
    kind, text = (b"k", command.idempotency_key) if command.idempotency_key else (b"i", command.id)
    return kind + hashlib.sha256(command.app.encode() + b"\0" + text.encode()).digest()[: _KEY_BYTES - 1]


def home_text(command: SendCommand) -> str:
    """Returns the text that chooses the home shard together with the app."""
    return command.idempotency_key or command.id


def pack_fields(*values: bytes | str | int) -> bytes:
    """Packs the fields of a function of Apus: MessagePack values, one after the other."""
    packed = bytearray()
    for value in values:
        if isinstance(value, int):
            packed += bytes([value]) if 0 <= value < 128 else b"\xd3" + struct.pack(">q", value)
            continue
        content = value.encode() if isinstance(value, str) else value
        length = len(content)
        if length < 32:
            packed += bytes([0xA0 | length])
        elif length < 1 << 8:
            packed += b"\xd9" + struct.pack(">B", length)
        elif length < 1 << 16:
            packed += b"\xda" + struct.pack(">H", length)
        else:
            packed += b"\xdb" + struct.pack(">I", length)
        packed += content
    return bytes(packed)
