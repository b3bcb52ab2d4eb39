from apus_push.v1 import common_pb2 as _common_pb2
from apus_push.v1 import outcome_pb2 as _outcome_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
RECEIPT_KIND_DRY_RUN: ReceiptKind
RECEIPT_KIND_FINAL: ReceiptKind
RECEIPT_KIND_PROGRESS: ReceiptKind
RECEIPT_KIND_RECIPIENTS: ReceiptKind
RECEIPT_KIND_REFUSED: ReceiptKind
RECEIPT_KIND_UNSPECIFIED: ReceiptKind

class DryRunRendering(_message.Message):
    __slots__ = ["environment", "headers", "locale", "payload", "payload_bytes", "payload_bytes_max", "provider"]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    environment: _common_pb2.Environment
    headers: _containers.RepeatedScalarFieldContainer[str]
    locale: str
    payload: str
    payload_bytes: int
    payload_bytes_max: int
    provider: _common_pb2.Provider
    def __init__(self, provider: _Optional[_Union[_common_pb2.Provider, str]] = ..., environment: _Optional[_Union[_common_pb2.Environment, str]] = ..., locale: _Optional[str] = ..., payload_bytes: _Optional[int] = ..., payload_bytes_max: _Optional[int] = ..., payload: _Optional[str] = ..., headers: _Optional[_Iterable[str]] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ["code", "detail", "field"]
    CODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    code: str
    detail: str
    field: str
    def __init__(self, code: _Optional[str] = ..., field: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class SendReceipt(_message.Message):
    __slots__ = ["app", "counts", "duplicate_of", "first_at_ms", "id", "idempotency_key", "kind", "last_at_ms", "lints", "planned", "problem", "published_at_ns", "recipients", "renderings", "send", "traceparent", "tracestate"]
    APP_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_OF_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LINTS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    RECIPIENTS_FIELD_NUMBER: _ClassVar[int]
    RENDERINGS_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    app: str
    counts: _containers.RepeatedCompositeFieldContainer[_common_pb2.OutcomeCount]
    duplicate_of: str
    first_at_ms: int
    id: str
    idempotency_key: str
    kind: ReceiptKind
    last_at_ms: int
    lints: _containers.RepeatedCompositeFieldContainer[Problem]
    planned: int
    problem: Problem
    published_at_ns: int
    recipients: _containers.RepeatedCompositeFieldContainer[_outcome_pb2.RecipientOutcome]
    renderings: _containers.RepeatedCompositeFieldContainer[DryRunRendering]
    send: str
    traceparent: str
    tracestate: str
    def __init__(self, id: _Optional[str] = ..., send: _Optional[str] = ..., app: _Optional[str] = ..., kind: _Optional[_Union[ReceiptKind, str]] = ..., problem: _Optional[_Union[Problem, _Mapping]] = ..., planned: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[_common_pb2.OutcomeCount, _Mapping]]] = ..., recipients: _Optional[_Iterable[_Union[_outcome_pb2.RecipientOutcome, _Mapping]]] = ..., published_at_ns: _Optional[int] = ..., first_at_ms: _Optional[int] = ..., last_at_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., duplicate_of: _Optional[str] = ..., renderings: _Optional[_Iterable[_Union[DryRunRendering, _Mapping]]] = ..., lints: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ..., tracestate: _Optional[str] = ...) -> None: ...

class ReceiptKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
