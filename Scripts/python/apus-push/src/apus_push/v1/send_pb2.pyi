from apus_push.v1 import common_pb2 as _common_pb2
from apus_push.v1 import notification_pb2 as _notification_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DELIVERY_AT_LEAST_ONCE: Delivery
DELIVERY_AT_MOST_ONCE: Delivery
DELIVERY_UNSPECIFIED: Delivery
DESCRIPTOR: _descriptor.FileDescriptor
RECEIPT_LEVEL_NONE: ReceiptLevel
RECEIPT_LEVEL_RECIPIENTS: ReceiptLevel
RECEIPT_LEVEL_SUMMARY: ReceiptLevel
RECEIPT_LEVEL_UNSPECIFIED: ReceiptLevel

class Address(_message.Message):
    __slots__ = ["application_server_key", "environment", "kind", "locale", "provider", "token", "webpush_auth", "webpush_p256dh"]
    APPLICATION_SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WEBPUSH_AUTH_FIELD_NUMBER: _ClassVar[int]
    WEBPUSH_P256DH_FIELD_NUMBER: _ClassVar[int]
    application_server_key: bytes
    environment: _common_pb2.Environment
    kind: _common_pb2.TokenKind
    locale: str
    provider: _common_pb2.Provider
    token: str
    webpush_auth: bytes
    webpush_p256dh: bytes
    def __init__(self, provider: _Optional[_Union[_common_pb2.Provider, str]] = ..., token: _Optional[str] = ..., environment: _Optional[_Union[_common_pb2.Environment, str]] = ..., kind: _Optional[_Union[_common_pb2.TokenKind, str]] = ..., webpush_p256dh: _Optional[bytes] = ..., webpush_auth: _Optional[bytes] = ..., locale: _Optional[str] = ..., application_server_key: _Optional[bytes] = ...) -> None: ...

class Addresses(_message.Message):
    __slots__ = ["addresses"]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    addresses: _containers.RepeatedCompositeFieldContainer[Address]
    def __init__(self, addresses: _Optional[_Iterable[_Union[Address, _Mapping]]] = ...) -> None: ...

class BroadcastChannel(_message.Message):
    __slots__ = ["channel_id", "environment", "stores_latest"]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    STORES_LATEST_FIELD_NUMBER: _ClassVar[int]
    channel_id: str
    environment: _common_pb2.Environment
    stores_latest: bool
    def __init__(self, channel_id: _Optional[str] = ..., environment: _Optional[_Union[_common_pb2.Environment, str]] = ..., stores_latest: bool = ...) -> None: ...

class Everyone(_message.Message):
    __slots__ = ["providers"]
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    providers: _containers.RepeatedScalarFieldContainer[_common_pb2.Provider]
    def __init__(self, providers: _Optional[_Iterable[_Union[_common_pb2.Provider, str]]] = ...) -> None: ...

class Identifiers(_message.Message):
    __slots__ = ["ids"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SendCommand(_message.Message):
    __slots__ = ["app", "delivery", "dry_run", "id", "idempotency_key", "not_before_ms", "notification", "published_at_ns", "rate_per_second", "receipt_level", "reply_to", "target", "traceparent", "tracestate"]
    APP_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_LEVEL_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    app: str
    delivery: Delivery
    dry_run: bool
    id: str
    idempotency_key: str
    not_before_ms: int
    notification: _notification_pb2.Notification
    published_at_ns: int
    rate_per_second: int
    receipt_level: ReceiptLevel
    reply_to: str
    target: Target
    traceparent: str
    tracestate: str
    def __init__(self, id: _Optional[str] = ..., app: _Optional[str] = ..., target: _Optional[_Union[Target, _Mapping]] = ..., notification: _Optional[_Union[_notification_pb2.Notification, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., published_at_ns: _Optional[int] = ..., not_before_ms: _Optional[int] = ..., reply_to: _Optional[str] = ..., receipt_level: _Optional[_Union[ReceiptLevel, str]] = ..., rate_per_second: _Optional[int] = ..., delivery: _Optional[_Union[Delivery, str]] = ..., dry_run: bool = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ["addresses", "apns_channel", "condition", "devices", "everyone", "expression", "fcm_condition", "fcm_group", "fcm_topic", "topic", "users"]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    APNS_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    EVERYONE_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    FCM_CONDITION_FIELD_NUMBER: _ClassVar[int]
    FCM_GROUP_FIELD_NUMBER: _ClassVar[int]
    FCM_TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    addresses: Addresses
    apns_channel: BroadcastChannel
    condition: str
    devices: Identifiers
    everyone: Everyone
    expression: str
    fcm_condition: str
    fcm_group: str
    fcm_topic: str
    topic: str
    users: Identifiers
    def __init__(self, addresses: _Optional[_Union[Addresses, _Mapping]] = ..., devices: _Optional[_Union[Identifiers, _Mapping]] = ..., users: _Optional[_Union[Identifiers, _Mapping]] = ..., topic: _Optional[str] = ..., condition: _Optional[str] = ..., expression: _Optional[str] = ..., everyone: _Optional[_Union[Everyone, _Mapping]] = ..., fcm_topic: _Optional[str] = ..., fcm_condition: _Optional[str] = ..., apns_channel: _Optional[_Union[BroadcastChannel, _Mapping]] = ..., fcm_group: _Optional[str] = ...) -> None: ...

class ReceiptLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Delivery(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
