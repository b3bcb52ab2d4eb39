"""The conversations of a publisher with Redis, as generators: they ask for steps and are given the replies. Time and chance are arguments,
so a test can speak Redis' part."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from enum import Enum
from random import random
from typing import Any, Callable, Generator, Iterable, TypeVar

from . import _rules
from ._identity import content_digest, home_text, key_digest, pack_fields
from ._keyspace import SHARDS_MAX, home_tag, shard_tags, slot_of
from ._nodes import Command, Exchange, Meaning, Nodes, Pause, Step, meaning, public_error
from .errors import AcknowledgementUnavailable, Conflict, MailboxFull, NotInitialized, PublishError, Refused, Unavailable
from .v1.receipt_pb2 import RECEIPT_KIND_DRY_RUN, RECEIPT_KIND_FINAL, RECEIPT_KIND_REFUSED, SendReceipt
from .v1.send_pb2 import SendCommand

Result = TypeVar("Result")
Conversation = Generator[Step, list[Any], Result]

#: The most commands that wait in one mailbox.
MAILBOX_ENTRIES_MAX = 10_000
#: The layout of an installation that this version reads.
LAYOUT = "1"
#: How long knowledge about replicas is used, in seconds.
REPLICA_NEWS_LIFETIME = 5.0
#: How long a replica is demanded after one was last seen, in seconds. It outlasts a failover and the repair of a machine; who has removed the
#: replicas for good gets publications without proof for so long.
REPLICA_DEMAND_MAX = 3_600.0
#: How long to ask the one master that has what others have copies of, or what a publication can do without, in seconds.
ORIGINAL_PATIENCE = 1.0
#: How long to do without the list of apps after its master did not answer, in seconds.
APPS_PAUSE = 5.0
#: The number of shards whose tags the copies of an installation's sizes have in a Redis Cluster.
COPIES = 60
#: The waits between two attempts, in seconds: doubled from the first to the last.
BACKOFF_MIN, BACKOFF_MAX = 0.05, 1.0
#: The most receipts of one read of a stream.
RECEIPTS_PER_READ = 100
#: The most receipts before a publication that are searched for its own.
NEWEST_RECEIPTS_MAX = 1_000
#: The longest blocking read of receipts in milliseconds.
BLOCK_MAX_MS = 1_000
#: How far the clocks of servers may differ, and that of one may go back, in milliseconds.
CLOCK_SKEW_MAX_MS = 60_000
#: The pause between two looks at several servers' receipts, in seconds.
POLL_PAUSE = 0.25


class Lane(str, Enum):
    """Which mailbox a command is written into."""

    #: For what a person waits for. Audiences are bulk always.
    EXPRESS = "express"
    BULK = "bulk"


class Acknowledgement(str, Enum):
    """What `publish` waits for."""

    #: Redis has the command in memory: lost if the server dies before its disk or a replica has it.
    MEMORY = "memory"
    #: A replica has it too: lost only if another replica takes over.
    REPLICA = "replica"
    #: It is on the server's disk.
    FSYNC = "fsync"


@dataclass(frozen=True)
class Publication:
    """A command in its mailbox. ``dataclasses.asdict`` and ``Publication(**saved)`` carry it to another process."""

    #: The send's id.
    send: str
    app: str
    #: True when the id or the key names a send with the same content already, also if it was refused since; nothing was written
    #: now.
    is_duplicate: bool
    #: The safety that is proven.
    acknowledgement: Acknowledgement
    #: False when the command is in the mailbox, but the requested safety was not confirmed in time. Publishing the same command
    #: again, with its key or with ``send`` as its id, asks anew and never sends twice.
    is_acknowledged: bool
    published_at_ns: int
    #: The stream of its receipts, and the entry after which they come.
    receipts_stream: str
    receipts_after: str


@dataclass(frozen=True)
class ReceivedReceipt:
    """A receipt of a stream, with the place to go on from."""

    receipt: SendReceipt
    #: Give it to ``follow`` to go on behind this receipt.
    cursor: str
    stream: str
    entry: str


@dataclass
class Knowledge:
    """What a publisher knows of its installation."""

    nodes: Nodes
    #: The longest time that a replica or the disk may take, in seconds.
    acknowledgement_patience: float
    #: How long Redis may be away, in seconds.
    patience: float
    #: The publisher's name, if it has mailboxes of its own.
    name: str | None = None
    shards: int = 0
    apps: set[str] = field(default_factory=set)
    #: No app is checked before that time.
    apps_from: float = float("-inf")
    replica_news: dict[str, tuple[bool, float]] = field(default_factory=dict)
    #: When a replica was last seen for a slot.
    replica_seen: dict[int, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    chance: Callable[[], float] = random


def ask(known: Knowledge, key: str, commands: Iterable[Command], deadline: float) -> Conversation[list[Any]]:
    """Sends commands to the server of a key, again and again until there is an answer that is no passing error.

    :returns: the replies; the first is no error, later ones may be.
    """
    exchange = Exchange(slot_of(key), tuple(commands))
    attempt = redirections = 0
    while True:
        try:
            replies = yield exchange
            if isinstance(replies[0], Exception):
                raise replies[0]
            return replies
        except Exception as error:  # noqa: BLE001  what it means is decided below
            what = meaning(error)
            if what is Meaning.FINAL:
                raise public_error(error) from error
            known.nodes.failed(error)
            if what is Meaning.REDIRECT and redirections < Nodes.REDIRECTIONS_MAX and known.clock() < deadline:
                redirections += 1
                continue
            wait = min(BACKOFF_MAX, BACKOFF_MIN * 2**attempt) * (0.5 + known.chance() / 2)
            if known.clock() + wait > deadline:
                raise public_error(error) from error
        attempt += 1
        yield Pause(wait)


def open_installation(known: Knowledge, deadline: float) -> Conversation[int]:
    """Returns the number of queue shards."""
    if known.shards:
        return known.shards
    try:
        until = min(deadline, known.clock() + ORIGINAL_PATIENCE) if known.nodes.is_cluster else deadline
        (reply,) = yield from ask(known, "apus:meta", [("HMGET", "apus:meta", "version", "queue_shards")], until)
    except Unavailable:
        copy = yield from _copy_of_sizes(known)
        if copy is None:
            raise
        reply = copy
    version, shards = (None if value is None else bytes(value).decode() for value in reply)
    if version is None or shards is None:
        raise NotInitialized("this Redis holds no installation of Apus (apus:meta is missing): run `apus init`")
    if version != LAYOUT or not shards.isdigit() or not 1 <= int(shards) <= SHARDS_MAX:
        raise NotInitialized(f"this Redis has an installation of layout {version}, and this package reads {LAYOUT}: use one for it")
    known.shards = int(shards)
    return known.shards


def _copy_of_sizes(known: Knowledge) -> Conversation[list[Any] | None]:
    """Reads a copy of the sizes, of which a Redis Cluster has many: of each master that answers at once the first; None when none has one."""
    asked: set[Any] = set()
    for tag in shard_tags(COPIES) if known.nodes.is_cluster else ():
        owner = known.nodes.owner(slot_of(tag))
        if owner is not None and owner in asked:
            continue
        asked.add(owner)
        try:
            (reply,) = yield Exchange(slot_of(tag), (("HMGET", f"{tag}installation", "version", "queue_shards"),))
        except Exception as error:  # noqa: BLE001  the next one may answer
            known.nodes.failed(error)
            continue
        if isinstance(reply, list) and None not in reply:
            return reply
    return None


def _check_app(known: Knowledge, app: str, deadline: float) -> Conversation[None]:
    """Refuses an app that no dispatcher has had. Redis is asked about an app only until it is known."""
    if known.name is not None or app in known.apps or known.clock() < known.apps_from:
        return
    try:
        until = min(deadline, known.clock() + ORIGINAL_PATIENCE)
        (reply,) = yield from ask(known, "apus:routes", [("HKEYS", "apus:routes")], until)
    except Refused:
        # This user may publish, but not read the list of routes: the receipt will tell.
        return
    except Unavailable:
        # So it will when the master that has the list is away.
        known.apps_from = known.clock() + APPS_PAUSE
        return
    names = [bytes(name).decode() for name in reply]
    known.apps = {name.split("/")[0] for name in names if "/" in name}
    _rules.check_app(app, known.apps)


def _default_level(known: Knowledge, key: str, deadline: float) -> Conversation[Acknowledgement]:
    """Returns the level when the caller names none: a replica if the server has one or had one within an hour, otherwise memory. A master that
    has just taken over has none: what it alone has may be lost with it, which its publisher must be able to see."""
    owner = str(known.nodes.owner(slot_of(key)))
    news = known.replica_news.get(owner)
    if news is None or known.clock() - news[1] > REPLICA_NEWS_LIFETIME:
        has_replica = False
        try:
            (reply,) = yield from ask(known, key, [("INFO", "replication")], deadline)
            lines = bytes(reply).decode().splitlines()
            has_replica = any(line.startswith("slave") and "state=online" in line for line in lines)
        except Refused:
            pass
        news = known.replica_news[owner] = (has_replica, known.clock())
    slot = slot_of(key)
    if news[0]:
        known.replica_seen[slot] = known.clock()
    is_demanded = known.clock() - known.replica_seen.get(slot, float("-inf")) < REPLICA_DEMAND_MAX
    return Acknowledgement.REPLICA if is_demanded else Acknowledgement.MEMORY


def _proof(known: Knowledge, level: Acknowledgement, key: str, deadline: float) -> Conversation[Command | None]:
    """Returns the command that proves the level when it follows the publication; None when the reply itself is the proof."""
    milliseconds = max(1, int(known.acknowledgement_patience * 1_000))
    if level is Acknowledgement.MEMORY:
        return None
    if level is Acknowledgement.REPLICA:
        return ("WAIT", 1, milliseconds)
    (reply,) = yield from ask(known, key, [("COMMAND", "INFO", "waitaof")], deadline)
    if reply and reply[0]:
        return ("WAITAOF", 1, 0, milliseconds)
    # The settings are looked at each time, because an operator may change them meanwhile.
    reason = "its settings say otherwise"
    try:
        (reply,) = yield from ask(known, key, [("CONFIG", "GET", "append*")], deadline)
        texts = [bytes(each).decode() for each in reply]
        settings = dict(zip(texts[::2], texts[1::2]))
        if settings.get("appendonly") == "yes" and settings.get("appendfsync") == "always":
            return None
    except Refused:
        reason = "this user may not run CONFIG GET"
    raise AcknowledgementUnavailable(
        f"this Redis cannot promise fsync: {reason}. Set `appendonly yes` and `appendfsync always`, or use Redis 7.2, which has "
        "WAITAOF. Nothing was published"
    )


def publishing(
    known: Knowledge,
    command: SendCommand,
    lane: Lane,
    acknowledgement: Acknowledgement | None,
    within: float | None,
) -> Conversation[Publication]:
    """Writes a command into its mailbox, once, however often a connection is lost."""
    prepared = SendCommand()
    prepared.CopyFrom(command)
    prepared.id = prepared.id or new_id()
    prepared.published_at_ns = int(known.now() * 1_000_000) * 1_000
    try:
        return (yield from _publishing(known, prepared, lane, acknowledgement, within))
    except PublishError as error:
        error.command = prepared
        raise


def _publishing(
    known: Knowledge,
    command: SendCommand,
    lane: Lane,
    acknowledgement: Acknowledgement | None,
    within: float | None,
) -> Conversation[Publication]:
    if known.name is not None and not command.reply_to:
        command.reply_to = own_receipts(known.name)
    _rules.check(command, known.now())
    deadline = known.clock() + (known.patience if within is None else within)
    shards = yield from open_installation(known, deadline)
    yield from _check_app(known, command.app, deadline)
    tag = home_tag(command.app, home_text(command), shards)
    mailbox = f"{tag}in:{lane.value}" if known.name is None else f"{tag}in:{lane.value}:{known.name}"
    # Who has mailboxes of its own may not write idempotency keys: a dispatcher looks at them when it takes the command.
    key = key_digest(command) if known.name is None else b""
    fields = pack_fields(content_digest(command), command.app, command.id, MAILBOX_ENTRIES_MAX, command.SerializeToString(), key)
    call: Command = ("FCALL", "apus2_publish", 1, mailbox, fields)
    # A later attempt may find the command of an earlier one whose reply was lost.
    may_be_ours = False
    attempt = 0
    while True:
        level = acknowledgement or (yield from _default_level(known, mailbox, deadline))
        proof = yield from _proof(known, level, mailbox, deadline)
        try:
            replies = yield Exchange(slot_of(mailbox), (call,) if proof is None else (call, proof))
            if isinstance(replies[0], Exception):
                raise replies[0]
        except Exception as error:  # noqa: BLE001  what it means is decided below
            what = meaning(error)
            if what is Meaning.FINAL:
                raise public_error(error) from error
            may_be_ours = may_be_ours or what is Meaning.UNKNOWN
            known.nodes.failed(error)
            known.replica_news.clear()
            wait = min(BACKOFF_MAX, BACKOFF_MIN * 2**attempt) * (0.5 + known.chance() / 2)
            attempt += 1
            if known.clock() + wait > deadline:
                raise public_error(error) from error
            yield Pause(wait)
            continue
        answer = replies[0]
        word = bytes(answer[0]).decode()
        if word == "full":
            full = MailboxFull(int(answer[1]), int(answer[2]) / 1_000)
            # Half of the wait is fixed, half is random, so that refused publishers do not return together.
            wait = full.retry_after * (0.5 + known.chance() / 2)
            if within is None or known.clock() + wait > deadline:
                raise full
            yield Pause(wait)
            continue
        send = bytes(answer[1]).decode()
        if word == "conflict":
            name = "idempotency key" if command.idempotency_key else "id"
            if command.idempotency_key and send == command.id:
                name += " or the id"  # whose ledger is there
            text = f"the {name} names the send {send} already, which has another content: a new send needs a new one"
            raise Conflict(text, send)
        if word not in ("new", "duplicate"):
            raise Refused(f"apus2_publish answered {word}, which this version does not know: update apus-push")
        if proof is not None and isinstance(replies[1], Exception) and meaning(replies[1]) is Meaning.FINAL:
            raise Refused(f"the command is in the mailbox, but Redis refused {proof[0]!s}: {replies[1]}")
        is_proven = proof is None or _is_given(replies[1])
        return Publication(
            send=send,
            app=command.app,
            is_duplicate=word == "duplicate" and not (may_be_ours and send == command.id),
            acknowledgement=level if is_proven else Acknowledgement.MEMORY,
            is_acknowledged=is_proven,
            published_at_ns=command.published_at_ns,
            receipts_stream=command.reply_to or f"{tag}receipts",
            receipts_after=_receipts_after(known, command, answer),
        )


def own_receipts(name: str) -> str:
    """Returns the stream of the receipts of a publisher that has mailboxes of its own."""
    return f"apus:receipts:{name}"


def new_id() -> str:
    """Returns a new id of a send."""
    return "s" + secrets.token_hex(10)


def _is_given(reply: Any) -> bool:
    """Returns whether the reply to ``WAIT`` or ``WAITAOF`` proves the safety."""
    count = reply[0] if isinstance(reply, list) and reply else reply
    return isinstance(count, int) and count >= 1


def _receipts_after(known: Knowledge, command: SendCommand, answer: list[Any]) -> str:
    """Returns the entry after which a command's receipts come: the beginning for one that was published before."""
    if bytes(answer[0]).decode() != "new":
        return "0"
    # Another server may have the stream of receipts, and another clock.
    margin = CLOCK_SKEW_MAX_MS if known.nodes.is_cluster and command.reply_to else 1
    return _entry_before(bytes(answer[2]).decode(), margin)


def _entry_before(entry: str, margin: int) -> str:
    """Returns the id so many milliseconds before that of an entry."""
    milliseconds = int(entry.partition("-")[0])
    return f"{milliseconds - margin}-0" if milliseconds > margin else "0"


# Receipts


def receipt_streams(known: Knowledge, stream: str | None, deadline: float) -> Conversation[list[str]]:
    """Returns the streams to read: the publisher's own, or every shard's."""
    if stream is not None or known.name is not None:
        return [stream or own_receipts(known.name or "")]
    shards = yield from open_installation(known, deadline)
    return [f"{tag}receipts" for tag in shard_tags(shards)]


def newest_entries(known: Knowledge, streams: list[str], deadline: float) -> Conversation[dict[str, str]]:
    """Returns the newest entry of each stream, ``0`` of an empty one."""
    places: dict[str, str] = {}
    for stream in streams:
        (reply,) = yield from ask(known, stream, [("XREVRANGE", stream, "+", "-", "COUNT", 1)], deadline)
        places[stream] = bytes(reply[0][0]).decode() if reply else "0"
    return places


def read_receipts(
    known: Knowledge, places: dict[str, str], deadline: float, wait: float = BLOCK_MAX_MS / 1_000
) -> Conversation[list[tuple[str, str, bytes]]]:
    """Reads what stands behind those places: waits a moment, that many seconds at most, when there is nothing, and returns stream, entry and
    message of each."""
    groups: list[list[str]] = [[stream] for stream in places] if known.nodes.is_cluster else [list(places)]
    blocking: Command = ("BLOCK", max(1, int(min(BLOCK_MAX_MS, wait * 1_000)))) if len(groups) == 1 else ()
    found: list[tuple[str, str, bytes]] = []
    for streams in groups:
        command: Command = ("XREAD", "COUNT", RECEIPTS_PER_READ, *blocking, "STREAMS", *streams, *(places[name] for name in streams))
        (reply,) = yield from ask(known, streams[0], [command], deadline)
        for name, entries in reply or []:
            found += _messages(bytes(name).decode(), entries)
    if not found and len(groups) > 1:
        yield Pause(POLL_PAUSE)
    return found


def _messages(stream: str, entries: Any) -> list[tuple[str, str, bytes]]:
    """Returns stream, entry and message of each of those entries."""
    return [(stream, bytes(entry).decode(), bytes(values[1])) for entry, values in entries or [] if values]


class Start(Enum):
    """Where a reading of receipts began."""

    PUBLICATION = "at the publication"
    #: A minute before it: where Redis' clock has gone back, receipts have ids before that of their command.
    WELL_BEFORE = "well before it"
    #: At the stream's oldest entry, behind which nothing is.
    BEGINNING = "at the beginning"


class ReceiptReading:
    """Reads the receipts of one send as they come, each once."""

    #: The receipts after which none comes.
    ENDS = (RECEIPT_KIND_FINAL, RECEIPT_KIND_REFUSED, RECEIPT_KIND_DRY_RUN)

    def __init__(self, known: Knowledge, publication: Publication, within: float | None) -> None:
        self._known = known
        self._publication = publication
        self._seen: set[str] = set()
        self._place = publication.receipts_after
        # Once an entry has come, none comes below it any more: the ids of a stream never fall.
        self._has_read = False
        self._start = Start.BEGINNING if self._place == "0" else Start.PUBLICATION
        now = known.clock()
        self._deadline = float("inf") if within is None else now + within
        # From then on what is behind is read, too, also while receipts of others come without end.
        self._turn = now + min(BLOCK_MAX_MS / 1_000, (self._deadline - now) / 2)

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return self._known.clock() >= self._deadline

    def read(self) -> Conversation[list[SendReceipt]]:
        """Returns the next receipts, none when nothing comes for a moment."""
        now, stream = self._known.clock(), self._publication.receipts_stream
        wait = (self._turn if self._start is Start.PUBLICATION else self._deadline) - now
        found = yield from read_receipts(self._known, {stream: self._place}, now + self._known.patience, wait)
        if found:
            self._place, self._has_read = found[-1][1], True
        chosen = self._choose(found)
        if self._start is Start.PUBLICATION and (not found or self._known.clock() >= self._turn):
            self._start = Start.WELL_BEFORE
            if self._has_read:
                chosen += self._choose((yield from self._before()))
            else:
                self._place = self._well_before
        return chosen

    @property
    def _well_before(self) -> str:
        return _entry_before(self._publication.receipts_after, CLOCK_SKEW_MAX_MS)

    def _before(self) -> Conversation[list[tuple[str, str, bytes]]]:
        """Returns what stands up to a minute before the publication, in order: the newest, because once an entry has come behind it, Redis'
        clock has gone back by little."""
        stream, after = self._publication.receipts_stream, self._publication.receipts_after
        found: list[tuple[str, str, bytes]] = []
        for _ in range(NEWEST_RECEIPTS_MAX // RECEIPTS_PER_READ):
            command: Command = ("XREVRANGE", stream, after, self._well_before, "COUNT", RECEIPTS_PER_READ)
            (reply,) = yield from ask(self._known, stream, [command], self._known.clock() + self._known.patience)
            found += _messages(stream, reply)
            if len(reply) < RECEIPTS_PER_READ:
                break
            after = f"({bytes(reply[-1][0]).decode()}"
        return found[::-1]

    def _choose(self, found: list[tuple[str, str, bytes]]) -> list[SendReceipt]:
        """Returns those receipts that are the send's, each once."""
        chosen: list[SendReceipt] = []
        for _, _, message in found:
            receipt = decode_receipt(message)
            if receipt is None or not self._is_ours(receipt) or receipt.id in self._seen:
                continue
            self._seen.add(receipt.id)
            if receipt.duplicate_of != receipt.send:
                chosen.append(receipt)
            elif self._start is not Start.BEGINNING:
                # The command stood in the mailbox twice, or it was published before: then its receipts may have come before it.
                self._start, self._place = Start.BEGINNING, "0"
                break
        return chosen

    def _is_ours(self, receipt: SendReceipt) -> bool:
        """Returns whether a receipt is one of the send's. That of a command that was published earlier under the same id is not, since a
        command of that id may then be a new send. From the beginning it is: the same command may have been published before."""
        publication = self._publication
        if receipt.send != publication.send or receipt.app not in ("", publication.app):
            return False
        if self._start is Start.BEGINNING:
            return True
        return not 0 < receipt.published_at_ns < publication.published_at_ns

    def is_last(self, receipt: SendReceipt) -> bool:
        """Returns whether no other receipt follows."""
        return receipt.kind in self.ENDS


def decode_receipt(message: bytes) -> SendReceipt | None:
    """Reads a receipt; None for one that is none."""
    try:
        return SendReceipt.FromString(message)
    except Exception:  # noqa: BLE001  protobuf's DecodeError has another base in each implementation
        return None


def unknown_outcome(publication: Publication, seconds: float) -> str:
    """Returns the sentence for a receipt that did not come."""
    send = publication.send
    return f"no final receipt of {send} within {seconds:g} s: do dispatcher and feedback run? `apus watch {send}` says where it stands"
