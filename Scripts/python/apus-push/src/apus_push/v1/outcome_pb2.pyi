from apus_push.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
RECEIPT_DETAIL_NONE: ReceiptDetail
RECEIPT_DETAIL_RECIPIENTS: ReceiptDetail
RECEIPT_DETAIL_SUMMARY: ReceiptDetail
RECEIPT_DETAIL_UNSPECIFIED: ReceiptDetail

class OutcomeBatch(_message.Message):
    __slots__ = ["app", "counts", "detail", "environment", "final", "first_at_ms", "id_use", "last_at_ms", "names_recipients", "planned", "provider", "published_at_ns", "receipt_written", "recipients", "refusals", "reply_to", "route", "send", "sequence", "suspects", "traceparent", "tracestate", "unit", "unregistered"]
    APP_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ID_USE_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    NAMES_RECIPIENTS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    RECIPIENTS_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    REPLY_TO_FIELD_NUMBER: _ClassVar[int]
    ROUTE_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SUSPECTS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    app: str
    counts: _containers.RepeatedCompositeFieldContainer[_common_pb2.OutcomeCount]
    detail: ReceiptDetail
    environment: _common_pb2.Environment
    final: bool
    first_at_ms: int
    id_use: int
    last_at_ms: int
    names_recipients: bool
    planned: int
    provider: _common_pb2.Provider
    published_at_ns: int
    receipt_written: bool
    recipients: _containers.RepeatedCompositeFieldContainer[RecipientOutcome]
    refusals: _containers.RepeatedCompositeFieldContainer[TokenVerdict]
    reply_to: str
    route: int
    send: str
    sequence: int
    suspects: _containers.RepeatedCompositeFieldContainer[TokenVerdict]
    traceparent: str
    tracestate: str
    unit: str
    unregistered: _containers.RepeatedCompositeFieldContainer[TokenVerdict]
    def __init__(self, send: _Optional[str] = ..., app: _Optional[str] = ..., route: _Optional[int] = ..., provider: _Optional[_Union[_common_pb2.Provider, str]] = ..., environment: _Optional[_Union[_common_pb2.Environment, str]] = ..., unit: _Optional[str] = ..., sequence: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[_common_pb2.OutcomeCount, _Mapping]]] = ..., unregistered: _Optional[_Iterable[_Union[TokenVerdict, _Mapping]]] = ..., suspects: _Optional[_Iterable[_Union[TokenVerdict, _Mapping]]] = ..., recipients: _Optional[_Iterable[_Union[RecipientOutcome, _Mapping]]] = ..., first_at_ms: _Optional[int] = ..., last_at_ms: _Optional[int] = ..., final: bool = ..., reply_to: _Optional[str] = ..., detail: _Optional[_Union[ReceiptDetail, str]] = ..., traceparent: _Optional[str] = ..., planned: _Optional[int] = ..., published_at_ns: _Optional[int] = ..., tracestate: _Optional[str] = ..., names_recipients: bool = ..., receipt_written: bool = ..., refusals: _Optional[_Iterable[_Union[TokenVerdict, _Mapping]]] = ..., id_use: _Optional[int] = ...) -> None: ...

class RecipientOutcome(_message.Message):
    __slots__ = ["at_ms", "device", "environment", "outcome", "place", "provider", "provider_id", "provider_reason", "reason"]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    device: str
    environment: _common_pb2.Environment
    outcome: _common_pb2.Outcome
    place: RecipientPlace
    provider: _common_pb2.Provider
    provider_id: str
    provider_reason: str
    reason: _common_pb2.Reason
    def __init__(self, place: _Optional[_Union[RecipientPlace, _Mapping]] = ..., outcome: _Optional[_Union[_common_pb2.Outcome, str]] = ..., reason: _Optional[_Union[_common_pb2.Reason, str]] = ..., provider_reason: _Optional[str] = ..., provider_id: _Optional[str] = ..., at_ms: _Optional[int] = ..., device: _Optional[str] = ..., provider: _Optional[_Union[_common_pb2.Provider, str]] = ..., environment: _Optional[_Union[_common_pb2.Environment, str]] = ...) -> None: ...

class RecipientPlace(_message.Message):
    __slots__ = ["address", "generation", "ordinal", "partition"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    address: int
    generation: int
    ordinal: int
    partition: int
    def __init__(self, partition: _Optional[int] = ..., ordinal: _Optional[int] = ..., generation: _Optional[int] = ..., address: _Optional[int] = ...) -> None: ...

class TokenVerdict(_message.Message):
    __slots__ = ["as_of_ms", "place", "provider_reason", "reason", "token_digest"]
    AS_OF_MS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_REASON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    as_of_ms: int
    place: RecipientPlace
    provider_reason: str
    reason: _common_pb2.Reason
    token_digest: int
    def __init__(self, place: _Optional[_Union[RecipientPlace, _Mapping]] = ..., token_digest: _Optional[int] = ..., as_of_ms: _Optional[int] = ..., reason: _Optional[_Union[_common_pb2.Reason, str]] = ..., provider_reason: _Optional[str] = ...) -> None: ...

class ReceiptDetail(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
