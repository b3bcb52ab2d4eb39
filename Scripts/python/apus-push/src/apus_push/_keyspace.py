"""Which shard is the home of a send, and which slot of a Redis Cluster has a key."""

from __future__ import annotations

import hashlib
from functools import lru_cache

SLOTS = 16_384
#: The most shards that an installation can have.
SHARDS_MAX = 1_024


def _crc16(data: bytes) -> int:
    """Computes CRC-16/XMODEM, as Redis Cluster does."""
    remainder = 0
    for byte in data:
        remainder ^= byte << 8
        for _ in range(8):
            remainder = (remainder << 1) ^ 0x1021 if remainder & 0x8000 else remainder << 1
        remainder &= 0xFFFF
    return remainder


def slot_of(key: str) -> int:
    """Returns the slot of a key: that of the text in its first braces, if there is any."""
    opening = key.find("{")
    closing = key.find("}", opening + 1)
    hashed = key[opening + 1 : closing] if opening >= 0 and closing > opening + 1 else key
    return _crc16(hashed.encode()) % SLOTS


@lru_cache
def shard_tags(shards: int) -> tuple[str, ...]:
    """Returns the tags of all queue shards: of each range of slots the smallest ``{q<n>}`` that lies in it."""
    chosen: dict[int, str] = {}
    number = 0
    while len(chosen) < shards:
        tag = f"{{q{number}}}"
        chosen.setdefault(slot_of(tag) * shards // SLOTS, tag)
        number += 1
    return tuple(chosen[place] for place in range(shards))


def home_tag(app: str, text: str, shards: int) -> str:
    """Returns the tag of a send's home shard, which its idempotency key or else its id chooses together with the app."""
    digest = hashlib.sha256(app.encode() + b"\0" + text.encode()).digest()
    return shard_tags(shards)[int.from_bytes(digest[:2], "big") % shards]
