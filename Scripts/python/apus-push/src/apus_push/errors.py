"""Errors, each with a sentence that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .v1.send_pb2 import SendCommand


class ApusError(Exception):
    """The base of every error of this package."""


class PublishError(ApusError):
    """Why a command was not published, or why there is no receipt."""

    #: The command as it would have been written, with its id: publishing it again never makes a second send of it.
    command: SendCommand | None = None


class Unavailable(PublishError):
    """Redis cannot be reached, or the outcome is unknown. Publish ``error.command`` again: it is the same send."""


class NotInitialized(PublishError):
    """This Redis holds no Apus installation, or an older one."""


class Refused(PublishError):
    """Redis answered with an error that retries do not repair: permissions, memory, a wrong password."""


class InvalidCommand(PublishError):
    """The command breaks a rule. Nothing was written."""

    def __init__(self, code: str, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        #: One of a closed set, the same as in the receipt of a refused send.
        self.code = code
        #: The path of the field, such as ``notification.ttl_ms``; empty for the whole command.
        self.field = field
        #: The rule.
        self.detail = detail


class Conflict(PublishError):
    """The id or the idempotency key names a send with another content. Nothing was written.

    A key is known for a day, and an id as long as the ledger of its send is kept, too: a new send needs a new one.
    """

    def __init__(self, message: str, send: str) -> None:
        super().__init__(message)
        #: The send that it names.
        self.send = send


class MailboxFull(PublishError):
    """Dispatchers are behind. Nothing was written; publish again after ``retry_after`` seconds."""

    def __init__(self, entries: int, retry_after: float) -> None:
        super().__init__(
            f"{entries} commands wait in the mailbox, which is full: publish again in {retry_after:.1f} s. "
            "When that is long, dispatchers are down or too few"
        )
        #: The time in seconds after which a full mailbox should have room again, from its present rate: 0.1 to 30.
        self.retry_after = retry_after


class AcknowledgementUnavailable(PublishError):
    """This Redis cannot give the requested acknowledgement. Nothing was written."""


class TimedOut(PublishError):
    """No receipt came in time. The send goes on."""


class RegistrationError(ApusError):
    """The HTTP API refused a request, or could not be reached."""

    def __init__(self, message: str, status: int | None = None, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        #: The status of the answer; None when there was none.
        self.status = status
        #: The problem details (RFC 9457) of the answer.
        self.problem = problem or {}

    @property
    def kind(self) -> str:
        """The last part of the problem's type, such as ``not-found``; empty when there is none."""
        return str(self.problem.get("type", "")).rpartition(":")[2]

    @property
    def errors(self) -> list[dict[str, str]]:
        """The parts of the body that break a rule, each with its ``pointer`` and ``detail``."""
        return list(self.problem.get("errors", []))

    @property
    def request(self) -> str:
        """The request's id, which the log of apus-registration has too."""
        return str(self.problem.get("instance", ""))
