"""Publish push notifications through Apus, read their receipts, and register devices.

The messages are those of the protobuf schema ``apus.v1``: ``SendCommand`` goes out, ``SendReceipt`` comes back.
"""

from ._conversation import Acknowledgement, Lane, Publication, ReceivedReceipt
from .errors import (
    AcknowledgementUnavailable,
    ApusError,
    Conflict,
    InvalidCommand,
    MailboxFull,
    NotInitialized,
    PublishError,
    Refused,
    RegistrationError,
    TimedOut,
    Unavailable,
)
from .publisher import AsyncPublisher, Publisher
from .registration import (
    AsyncRegistrationClient,
    Attributes,
    Device,
    DevicePatch,
    DeviceRegistration,
    ImportAnswer,
    ImportedDevice,
    RegistrationClient,
)
from .v1.common_pb2 import Environment, Outcome, OutcomeCount, Provider, Reason, TokenKind
from .v1.notification_pb2 import (
    FCMStyle,
    InterruptionLevel,
    Kind,
    LiveActivity,
    LiveActivityEvent,
    LocaleVariant,
    Notification,
    Priority,
    Sound,
)
from .v1.outcome_pb2 import RecipientOutcome
from .v1.receipt_pb2 import Problem, ReceiptKind, SendReceipt
from .v1.send_pb2 import Address, Addresses, BroadcastChannel, Delivery, Everyone, Identifiers, ReceiptLevel, SendCommand, Target

__version__ = "0.1.0"

__all__ = [
    "AcknowledgementUnavailable",
    "Acknowledgement",
    "Address",
    "Addresses",
    "ApusError",
    "AsyncPublisher",
    "AsyncRegistrationClient",
    "Attributes",
    "BroadcastChannel",
    "Conflict",
    "Delivery",
    "Device",
    "DevicePatch",
    "DeviceRegistration",
    "Environment",
    "Everyone",
    "FCMStyle",
    "Identifiers",
    "ImportAnswer",
    "ImportedDevice",
    "InterruptionLevel",
    "InvalidCommand",
    "Kind",
    "Lane",
    "LiveActivity",
    "LiveActivityEvent",
    "LocaleVariant",
    "MailboxFull",
    "NotInitialized",
    "Notification",
    "Outcome",
    "OutcomeCount",
    "Priority",
    "Problem",
    "Provider",
    "Publication",
    "PublishError",
    "Publisher",
    "Reason",
    "ReceiptKind",
    "ReceiptLevel",
    "ReceivedReceipt",
    "RecipientOutcome",
    "Refused",
    "RegistrationClient",
    "RegistrationError",
    "SendCommand",
    "SendReceipt",
    "Sound",
    "Target",
    "TimedOut",
    "TokenKind",
    "Unavailable",
]
