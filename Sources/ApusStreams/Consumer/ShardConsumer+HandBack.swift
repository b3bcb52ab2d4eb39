internal import ApusRedis
internal import Logging

/// Deliveries that are not to count against an entry.
extension ShardConsumer {
    /// Returns the deliveries of an entry that was begun besides this one: at least one, for it is no first delivery that comes back.
    static func deliveriesBesides(_ current: UInt32) -> UInt32 { max(2, current) - 1 }

    /// Gives back an entry: this delivery does not count. One that was begun is no first delivery when it comes back.
    func handBack(_ entry: StreamEntry, wasBegun: Bool) async {
        await self.gaveUp(entry)
        let deliveries = wasBegun ? Self.deliveriesBesides(entry.deliveries) : max(1, entry.deliveries) - 1
        let holding = Entries.Owned(stream: entry.stream, id: entry.id, deliveriesMax: deliveries)
        do {
            try await self.streams.entries.handBack([holding], by: self.consumer, tag: self.tag)
        } catch {
            self.logger.warning("cannot hand back", metadata: ["entry": "\(entry.origin)", "error": "\(error)"])
        }
    }

    /// Ends the handling of an entry that is to come back, and sees to it that it does where its server has forgotten it, or can be published again.
    func gaveUp(_ entry: StreamEntry) async {
        guard let replayLog = self.replayLog else { return }
        while true {
            do throws(RedisError) {
                try await replayLog.gaveUp(entry)
                return try await self.streams.mailboxes.gaveUp(entry, tag: self.tag)
            } catch {
                guard Disposition(of: error).isOutage, !self.isStopping else {
                    self.logger.error(
                        "a command that its server has forgotten cannot be sent again",
                        metadata: ["entry": "\(entry.origin)", "error": "\(error)"]
                    )
                    return
                }
                try? await Task.sleep(for: EntryRetry.pauseMax)
            }
        }
    }

    /// Records that an outage kept an entry from being handled, so that this delivery does not count: it comes back after a lease. The entry stays
    /// in hand until Redis knows that.
    func excuse(_ entry: StreamEntry) async {
        let deliveries = Self.deliveriesBesides(entry.deliveries)
        let holding = Entries.Owned(stream: entry.stream, id: entry.id, deliveriesMax: deliveries)
        while true {
            do {
                try await self.streams.entries.renew([holding], by: self.consumer, tag: self.tag)
                return
            } catch {
                guard Disposition(of: error).isOutage, !self.isStopping else { return }
                try? await Task.sleep(for: EntryRetry.pauseMin)
            }
        }
    }

    /// Exempts the other redelivered entries in hand before a poison entry begins: should that one end this process, this delivery of theirs
    /// does not count. First deliveries count, because one of them may be what ends the process.
    func excuse(besides poison: StreamEntry) async {
        let holdings = self.inHand.filter { $0.deliveries > 1 && ($0.stream != poison.stream || $0.id != poison.id) }
            .map { Entries.Owned(stream: $0.stream, id: $0.id, deliveriesMax: $0.deliveries - 1) }
        guard !holdings.isEmpty else { return }
        do {
            try await self.streams.entries.renew(holdings, by: self.consumer, tag: self.tag)
        } catch {
            self.logger.warning(
                "cannot exempt the other entries in hand from blame",
                metadata: ["shard": "\(self.tag)", "error": "\(error)"]
            )
        }
    }
}
