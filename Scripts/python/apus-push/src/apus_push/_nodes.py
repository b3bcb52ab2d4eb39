"""Which server of Redis has which slot or is the master, and what an error of Redis means. Nothing here reads or writes a socket."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Sequence
from urllib.parse import parse_qsl, unquote, urlencode

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
    """The servers behind a URL: one, the masters of a Redis Cluster with the slots of each, or the master that Sentinels name."""

    #: The most redirections that one command follows before it waits.
    REDIRECTIONS_MAX = 5
    #: How long the Sentinels' word is used, in seconds: a master that they have replaced may answer for longer.
    MASTER_LIFETIME = 1.0

    def __init__(self, url: str) -> None:
        scheme, separator, rest = url.partition("://")
        scheme, _, kind = scheme.partition("+")
        self.is_cluster, self.is_sentinel = kind == "cluster", kind == "sentinel"
        self.seeds: list[Address] = []
        self.is_stale = bool(kind)
        #: The masters by slot. It is replaced and never changed, since other threads may be reading it.
        self._owners: dict[int, Address] = {}
        self._master: Address | None = None
        self._learned_at = float("-inf")
        if not kind:
            self.url = url
            return
        # redis+cluster://user:password@one:6379,two:6379/?option=value
        # redis+sentinel://user:password@one:26379,two:26379/name?option=value&sentinel_user=user&sentinel_password=password
        if scheme not in ("redis", "rediss") or not (self.is_cluster or self.is_sentinel):
            raise Refused(f"an address must begin with redis or rediss, and then +cluster, +sentinel or nothing, not with {scheme}+{kind}")
        end = min((rest.find(mark) for mark in "/?" if mark in rest), default=len(rest))
        user, at, hosts = rest[:end].rpartition("@")
        self.seeds = [_address(host, 26379 if self.is_sentinel else 6379) for host in hosts.split(",") if host]
        if not self.seeds:
            what = "of Sentinels must name each of them" if self.is_sentinel else "of a Redis Cluster must name at least one of its nodes"
            raise Refused(f"the address {what}")
        # The options of redis-py's own form; the host is another for each node.
        self.url = f"{scheme}://{user}{at}localhost:6379{rest[end:]}"
        if self.is_sentinel:
            self._read_sentinel(f"{scheme}://{{}}localhost:6379/", f"{user}{at}", rest[end:])

    def _read_sentinel(self, url: str, login: str, rest: str) -> None:
        path, _, query = rest.partition("?")
        self.master_name = unquote(path.strip("/"))
        if not self.master_name:
            raise Refused("the address of Sentinels must end with the name of the master in their configuration, such as /mymaster")
        options = dict(parse_qsl(query, keep_blank_values=True))
        #: How to log in to a Sentinel, which has users of its own.
        self.sentinel_login = {"username": options.pop("sentinel_user", None), "password": options.pop("sentinel_password", None)}
        end = f"?{urlencode(options)}" if options else ""
        self.url = url.format(login) + end
        self.sentinel_url = url.format("") + end

    def must_learn(self, now: float) -> bool:
        """Returns whether to ask who the masters are before the next command."""
        return self.is_stale or (self.is_sentinel and now - self._learned_at > self.MASTER_LIFETIME)

    def owner(self, slot: int) -> Address | None:
        """Returns the master of a slot; None for the only server, or when nobody has the slot."""
        return self._owners.get(slot) if self.is_cluster else self._master

    def place(self, slot: int) -> Address | None:
        """Returns the server to send a slot's commands to; None for the only one.

        :raises Unavailable: when no server has the slot.
        """
        owner = self.owner(slot)
        if owner is None and (self.is_cluster or self.is_sentinel):
            raise Unavailable(f"no server of the Redis Cluster is known to have the slot {slot}")
        return owner

    @property
    def candidates(self) -> list[Address]:
        """The servers to ask for the slots, the known masters first."""
        return sorted(set(self._owners.values())) + self.seeds

    def learn(self, slots: Sequence[Any], asked: Address) -> None:
        """Reads the reply to ``CLUSTER SLOTS``."""
        owners: dict[int, Address] = {}
        for first, last, master, *_ in slots:
            host = master[0].decode() if master[0] else asked.host
            owner = Address(host or asked.host, int(master[1]))
            owners.update(dict.fromkeys(range(int(first), int(last) + 1), owner))
        self._owners = owners
        self.is_stale = len(owners) < SLOTS

    @property
    def majority(self) -> int:
        """The number of Sentinels that must agree."""
        return len(self.seeds) // 2 + 1

    def learn_master(self, votes: Sequence[Address | Exception | None], now: float) -> Address | None:
        """Reads what Sentinels have answered to ``SENTINEL GET-MASTER-ADDR-BY-NAME``, in the order of their addresses: None for no such name.

        The majority of those in the address must agree: one that is cut off from the others still names the old master.

        :returns: the master; None while more votes may decide.
        :raises Unavailable: when no majority agrees.
        """
        named = [vote for vote in votes if isinstance(vote, Address)]
        for address in named:
            if named.count(address) >= self.majority:
                self._master, self._learned_at, self.is_stale = address, now, False
                return address
        if len(votes) < len(self.seeds):
            return None
        for vote in votes:
            if isinstance(vote, _FINAL_CONNECTION_ERRORS):
                raise Refused(f"a Sentinel refuses the log-in ({vote}): give sentinel_password in the address")
        if not named and None in votes:
            raise Refused(f"no Sentinel has a master named {self.master_name!r}: correct the name at the end of the address")
        if self._master is not None and not self.is_stale and not named:
            # Sentinels that are away say nothing against a master that answers.
            self._learned_at = now
            return self._master
        parts = [f"{named.count(each)} name {each.host}:{each.port}" for each in sorted(set(named))]
        silent = sum(isinstance(vote, Exception) for vote in votes)
        parts += [f"{silent} do not answer"] if silent else []
        raise Unavailable(f"{self.majority} of {len(self.seeds)} Sentinels must agree on the master, but {', '.join(parts)}")

    def failed(self, error: Exception) -> None:
        """Asks again before the next command: a server did not answer, or names another as a slot's master."""
        if not (self.is_cluster or self.is_sentinel):
            return
        moved = _moved(error) if self.is_cluster else None
        if moved is not None:
            slot, owner = moved
            self._owners = {**self._owners, slot: owner}
        self.is_stale = True


def _moved(error: Exception) -> tuple[int, Address] | None:
    """Reads a redirection, which older versions of redis-py know only as text; None for another error."""
    found = _MOVED.fullmatch(str(error))
    is_moved = isinstance(error, exceptions.MovedError) or (found is not None and found[1] is not None)
    return (int(found[2]), Address(found[3], int(found[4]))) if found is not None and is_moved else None


_MOVED = re.compile(r"(MOVED )?(\d+) (.*):(\d+)")


def _address(text: str, usual: int) -> Address:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        return Address(text.strip("[]"), usual)
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
    if isinstance(error, Unavailable):
        # The Sentinels do not agree yet.
        return Meaning.RETRY
    if isinstance(error, exceptions.ResponseError) and (str(error).startswith(_RETRIED) or _is_passing_in_script(str(error))):
        return Meaning.RETRY
    return Meaning.FINAL


def says_no_master(reply: object) -> bool:
    """Returns whether a reply shows that its server is no master any more: the same address may lead to another one by now."""
    if isinstance(reply, (exceptions.ReadOnlyError, exceptions.MasterDownError)):
        return True
    # Older versions of redis-py know the second only as text.
    return isinstance(reply, exceptions.ResponseError) and str(reply).startswith(("READONLY", "MASTERDOWN"))


def _is_passing_in_script(text: str) -> bool:
    """Returns whether a server refuses a command of a function because its slot is being moved, or the cluster is down: which it says there in
    prose only."""
    return "Script attempted to " in text and any(words in text for words in ("non local key", "undeclared key", "while the cluster is down"))


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
    return Unavailable(f"Redis cannot be reached: {text}. Publishing error.command again is safe")
