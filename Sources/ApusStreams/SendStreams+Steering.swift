package import ApusRedis

/// What an operator wants of a send.
public enum SteeringWish: Hashable, Sendable {
    /// Send nothing more for now.
    case pause
    /// Go on.
    case resume
    /// Stop for good: what is not on its way is closed as cancelled.
    case cancel
    /// So many recipients per second; 0: as many as the routes allow.
    case rate(UInt32)
}

extension SendStreams {
    /// What became of a wish.
    public enum Steering: Hashable, Sendable {
        /// It is so; the ledger as it stood right after.
        case ok(SendLedger)
        /// There is no such send here.
        case unknown
        /// The send is cancelled or complete: too late for that.
        case over(SendLedger.State)
    }

    /// Every send of that id and where it lives; nil as app: of any app.
    public func find(app: String?, send: String) async throws -> [(keys: StreamKeys, ledger: SendLedger)] {
        var found: [(keys: StreamKeys, ledger: SendLedger)] = []
        for shard in 0..<self.keyspace.queueShards {
            let keys = self.keys(shard: shard)
            guard let ledger = try await self.ledger(keys.send(send), tag: keys.tag) else { continue }
            if app == nil || ledger.app == app { found.append((keys, ledger)) }
        }
        return found
    }

    /// Steers a send that lives there. Asking twice is asking once; what a caller that died left half-done is finished by the
    /// dispatchers, or by asking again.
    ///
    /// The send's state comes first: from then on no dispatcher that reports gets leave to start on another recipient. Then what was put
    /// aside, and for `cancel` what waits for its time, goes back to its streams: to be sent, or to be closed at once.
    public func steer(_ wish: SteeringWish, app: String, send: String, at keys: StreamKeys) async throws -> Steering {
        let (word, rate) =
            switch wish {
            case .pause: ("pause", UInt32(0))
            case .resume: ("resume", UInt32(0))
            case .cancel: ("cancel", UInt32(0))
            case .rate(let perSecond): ("rate", perSecond)
            }
        let reply = try await self.client.call(
            "apus1_steer",
            on: keys.tag,
            keys: [keys.send(send)],
            arguments: [.text(app), .text(word), .integer(Int64(rate))],
        )
        switch reply.root[0].text {
        case "ok": break
        case "none": return .unknown
        case "over": return .over(SendLedger.State(rawValue: reply.root[1].text) ?? .done)
        default: throw StreamError.unexpected(function: "apus1_steer", answer: reply.root[0].text)
        }
        switch wish {
        case .pause, .rate: break
        case .resume:
            while try await self.release(send, tag: keys.tag) > 0 {}
        case .cancel:
            while try await self.release(send, tag: keys.tag) > 0 {}
            var page = try await self.recall(send, tag: keys.tag, cursor: "0")
            while page.cursor != "0" { page = try await self.recall(send, tag: keys.tag, cursor: page.cursor) }
        }
        guard let ledger = try await self.ledger(keys.send(send), tag: keys.tag) else { return .unknown }
        return .ok(ledger)
    }

    /// Moves up to `releaseBatchMax` entries that were put aside back to their streams.
    ///
    /// - Returns: how many still wait; -1: the send is paused, and nothing was moved.
    package func release(
        _ send: String,
        tag: HashTag,
        countMax: Int = StreamLimits.releaseBatchMax,
    ) async throws -> Int {
        let reply = try await self.client.call(
            "apus1_release",
            on: tag,
            keys: [StreamKeys(tag: tag).send(send)],
            arguments: [.integer(Int64(countMax))],
        )
        return Int(reply.root.number)
    }

    /// Moves what the send has waiting for its time to its streams now, looking at about `recallPageMax` of all that waits.
    ///
    /// - Returns: where to go on ("0": that was all), and how many were moved.
    package func recall(
        _ send: String,
        tag: HashTag,
        cursor: String,
        pageMax: Int = StreamLimits.recallPageMax,
    ) async throws -> (cursor: String, moved: Int) {
        let due = StreamKeys(tag: tag).due
        let reply = try await self.client.call(
            "apus1_recall",
            on: tag,
            keys: [due],
            arguments: [.text(send), .text(cursor), .integer(Int64(pageMax))],
        )
        return (reply.root[0].text, Int(reply.root[1].number))
    }
}
