"""Which server of Redis has which slot, and what an error of Redis means. Nothing here reads or writes a socket."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Sequence

from redis import exceptions

from ._keyspace import SLOTS
from .errors import NotInitialized, PublishError, Refused, Unavailable

#: One argument of a command.
Argument = bytes | str | int
#: A command of Redis with its arguments.
Command = tuple[Argument, ...]


@dataclass(frozen=True)
class Exchange:
    """Commands for the server of one slot, in one write on one connection. The answer is the list of replies, errors among them."""

    slot: int
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Pause:
    """Nothing for some seconds."""

    seconds: float


#: What a conversation with Redis asks for next.
Step = Exchange | Pause


@dataclass(frozen=True, order=True)
class Address:
    """The place of a server."""

    host: str
    port: int


class Nodes:
    """The servers behind a URL: one, or the masters of a Redis Cluster with the slots of each."""

    #: The most redirections that one command follows before it waits.
    REDIRECTIONS_MAX = 5

    def __init__(self, url: str) -> None:
        scheme, separator, rest = url.partition("+cluster://")
        self.is_cluster = bool(separator)
        if not self.is_cluster:
            self.url = url
            self.seeds: list[Address] = []
            return
        # redis+cluster://user:password@one:6379,two:6379/?option=value
        if scheme not in ("redis", "rediss"):
            raise Refused(f"the address {url} must begin with redis+cluster:// or rediss+cluster://")
        end = min((rest.find(mark) for mark in "/?" if mark in rest), default=len(rest))
        user, at, hosts = rest[:end].rpartition("@")
        self.seeds = [_address(host) for host in hosts.split(",") if host]
        if not self.seeds:
            raise Refused("the address of a Redis Cluster must name at least one of its nodes")
        # The options of redis-py's own form; the host is another for each node.
        self.url = f"{scheme}://{user}{at}localhost:6379{rest[end:]}"
        self._owners: dict[int, Address] = {}
        self.is_stale = True

    def owner(self, slot: int) -> Address | None:
        """Returns the master of a slot; None for the only server, or when nobody has the slot."""
        return self._owners.get(slot) if self.is_cluster else None

    @property
    def candidates(self) -> list[Address]:
        """The servers to ask for the slots, the known masters first."""
        return sorted(set(self._owners.values())) + self.seeds

    def learn(self, slots: Sequence[Any], asked: Address) -> None:
        """Reads the reply to ``CLUSTER SLOTS``."""
        self._owners = {}
        for first, last, master, *_ in slots:
            host = master[0].decode() if master[0] else asked.host
            owner = Address(host or asked.host, int(master[1]))
            self._owners.update(dict.fromkeys(range(int(first), int(last) + 1), owner))
        self.is_stale = len(self._owners) < SLOTS

    def failed(self, error: Exception) -> None:
        """Looks at all slots again before the next command: a server did not answer, or names another as a slot's master."""
        if not self.is_cluster:
            return
        self.is_stale = True
        moved = _moved(error)
        if moved is not None:
            slot, owner = moved
            self._owners[slot] = owner


def _moved(error: Exception) -> tuple[int, Address] | None:
    """Reads a redirection, which older versions of redis-py know only as text; None for another error."""
    found = _MOVED.fullmatch(str(error))
    is_moved = isinstance(error, exceptions.MovedError) or (found is not None and found[1] is not None)
    return (int(found[2]), Address(found[3], int(found[4]))) if found is not None and is_moved else None


_MOVED = re.compile(r"(MOVED )?(\d+) (.*):(\d+)")


def _address(text: str) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator:
        return Address(text, 6379)
    if not port.isdigit():
        raise Refused(f"{text} is no host and port")
    return Address(host.strip("[]"), int(port))


class Meaning(Enum):
    """What to do about an error of Redis."""

    #: Ask the server that the error names, at once.
    REDIRECT = "redirect"
    #: Try again a little later: nothing was done.
    RETRY = "retry"
    #: Try again a little later: it may have been done.
    UNKNOWN = "unknown"
    #: Give up.
    FINAL = "final"


_FINAL_CONNECTION_ERRORS = (exceptions.AuthenticationError, exceptions.AuthorizationError)
_RETRIED = ("ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING", "BUSY", "NOREPLICAS", "MISCONF")


def meaning(error: Exception) -> Meaning:
    """Returns what to do about an error."""
    if _moved(error) is not None:
        return Meaning.REDIRECT
    if isinstance(error, (exceptions.AskError, exceptions.TryAgainError, exceptions.ClusterDownError)):
        return Meaning.RETRY
    if isinstance(error, (exceptions.ReadOnlyError, exceptions.BusyLoadingError, exceptions.MasterDownError)):
        return Meaning.RETRY
    if isinstance(error, _FINAL_CONNECTION_ERRORS):
        return Meaning.FINAL
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
        return Meaning.UNKNOWN
    if isinstance(error, exceptions.ResponseError) and str(error).startswith(_RETRIED):
        return Meaning.RETRY
    return Meaning.FINAL


def public_error(error: Exception) -> PublishError:
    """Returns the error that a caller sees for one of Redis."""
    if isinstance(error, PublishError):
        return error
    text = str(error)
    if "Function not found" in text:
        return NotInitialized(f"this Redis lacks the functions of Apus ({text}): run `apus init`")
    if isinstance(error, exceptions.NoPermissionError):
        return Refused(f"Redis: {text}. The user needs what the article Security lists for publishers")
    if isinstance(error, _FINAL_CONNECTION_ERRORS):
        return Refused(f"Redis: {text}. Check the user and the password in the URL or the options")
    if meaning(error) is Meaning.FINAL:
        return Refused(f"Redis: {text}")
    return Unavailable(f"Redis cannot be reached: {text}. Publishing the same command again is safe")
