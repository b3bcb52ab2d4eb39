from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
ENVIRONMENT_PRODUCTION: Environment
ENVIRONMENT_SANDBOX: Environment
ENVIRONMENT_UNSPECIFIED: Environment
LANE_BULK: Lane
LANE_EXPRESS: Lane
LANE_UNSPECIFIED: Lane
OUTCOME_ACCEPTED: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_EXPIRED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_OPEN: Outcome
OUTCOME_REJECTED: Outcome
OUTCOME_SKIPPED: Outcome
OUTCOME_UNREGISTERED: Outcome
OUTCOME_UNSPECIFIED: Outcome
PROVIDER_APNS: Provider
PROVIDER_FCM: Provider
PROVIDER_UNSPECIFIED: Provider
PROVIDER_WEBPUSH: Provider
REASON_BAD_TOKEN: Reason
REASON_CANCELLED: Reason
REASON_CONNECTION: Reason
REASON_CREDENTIALS: Reason
REASON_DEVICE_GONE: Reason
REASON_MALFORMED: Reason
REASON_NONE: Reason
REASON_NOT_MATCHING: Reason
REASON_NO_ROUTE: Reason
REASON_OTHER: Reason
REASON_PAYLOAD: Reason
REASON_PROVIDER_UNAVAILABLE: Reason
REASON_RATE_LIMITED: Reason
REASON_RETRIES_EXHAUSTED: Reason
REASON_TIMEOUT: Reason
REASON_TTL: Reason
REASON_UNKNOWN: Reason
REASON_UNREGISTERED: Reason
REASON_UNSPECIFIED: Reason
REASON_WRONG_ENVIRONMENT: Reason
REASON_WRONG_SENDER: Reason
REASON_WRONG_TOPIC: Reason
TOKEN_KIND_CONTROLS: TokenKind
TOKEN_KIND_DEVICE: TokenKind
TOKEN_KIND_FID: TokenKind
TOKEN_KIND_LIVE_ACTIVITY_START: TokenKind
TOKEN_KIND_LIVE_ACTIVITY_UPDATE: TokenKind
TOKEN_KIND_PUSH_TO_TALK: TokenKind
TOKEN_KIND_UNSPECIFIED: TokenKind
TOKEN_KIND_VOIP: TokenKind
TOKEN_KIND_WIDGETS: TokenKind

class OutcomeCount(_message.Message):
    __slots__ = ["count", "outcome", "provider", "reason"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    count: int
    outcome: Outcome
    provider: Provider
    reason: Reason
    def __init__(self, provider: _Optional[_Union[Provider, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., reason: _Optional[_Union[Reason, str]] = ..., count: _Optional[int] = ...) -> None: ...

class Provider(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Environment(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class TokenKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Lane(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
