internal import ApusCore
internal import ApusMetrics

/// What the control listener can do.
///
/// ```
/// GET  /ledger?provider=&status=&send=&token=&since=&limit=   every request, NDJSON
/// GET  /sends                                                 the numbers of each send, NDJSON
/// GET  /summary                                               counters, JSON
/// GET  /metrics                                               the same for Prometheus
/// GET  /timeline?since=                                       acceptances in every 10 ms that had some, NDJSON
/// GET  /accepted?since=&provider=&send=                       how many were accepted since, JSON
/// GET  /ca.pem                                                the certificate to trust
/// POST /dead     {"provider": "apns", "dead": [{"token": "…", "at": 1700000000000}], "expired": [], "bad": ["…"],
///                 "foreign": [], "alive": [], "share": 0.02, "seed": 7}
/// POST /faults   see FaultOrder
/// POST /listeners  {"fcm": false}: closes a provider's listener and connections; true: opens it again
/// POST /reset    forgets ledger, fates and faults
/// ```
struct ControlRoutes: Sendable {
    private let world: World
    private let authorityPEM: String
    private let setListening: @Sendable (FaultRoute, Bool) async throws(SimulatorError) -> Void

    init(
        world: World,
        authorityPEM: String,
        setListening: @escaping @Sendable (FaultRoute, Bool) async throws(SimulatorError) -> Void,
    ) {
        self.world = world
        self.authorityPEM = authorityPEM
        self.setListening = setListening
    }

    /// An answer at once, the ledger piece by piece, or an answer that takes a moment.
    enum Answer {
        case text(status: Int, type: String, body: [UInt8])
        case ledger(LedgerReader)
        case later(@Sendable () async -> (status: Int, type: String, body: [UInt8]))
    }

    func answer(method: String, uri: String, body: [UInt8]) -> Answer {
        let parts = uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = String(parts[0])
        let query = FormParser.parse(Array((parts.count == 2 ? parts[1] : "").utf8))
        guard let query else { return Self.refusal(400, "the query is malformed") }
        switch (method, path) {
        case ("GET", "/ledger"):
            guard let filter = LedgerFilter(query) else { return Self.refusal(400, "the query is malformed") }
            return .ledger(LedgerReader(self.world.ledger.snapshot, filter: filter))
        case ("GET", "/sends"): return self.sends
        case ("GET", "/summary"):
            return Self.json(200, self.world.summary.json)
        case ("GET", "/metrics"):
            let summary = self.world.summary
            return .later {
                (200, SimulatorMetrics.format.contentType, await SimulatorMetrics.exposition(summary))
            }
        case ("GET", "/timeline"): return self.timeline(query)
        case ("GET", "/accepted"): return self.accepted(query)
        case ("GET", "/ca.pem"):
            return .text(status: 200, type: "application/x-pem-file", body: Array(self.authorityPEM.utf8))
        case ("POST", "/reset"):
            self.world.reset()
            return Self.json(200, Array("{}".utf8))
        case ("POST", "/faults"), ("POST", "/dead"): return self.order(path, body)
        case ("POST", "/listeners"): return self.listeners(body)
        case (_, "/ledger"), (_, "/sends"), (_, "/summary"), (_, "/metrics"), (_, "/ca.pem"), (_, "/reset"),
            (_, "/faults"), (_, "/dead"), (_, "/timeline"), (_, "/accepted"), (_, "/listeners"):
            return Self.refusal(405, "this path takes another method")
        default: return Self.refusal(404, "no such path")
        }
    }

    private static func json(_ status: Int, _ body: [UInt8]) -> Answer {
        .text(status: status, type: "application/json", body: body)
    }

    static func refusal(_ status: Int, _ sentence: String) -> Answer {
        Self.json(status, JSONValue.object(["error": .string(sentence)]).bytes)
    }

    private func timeline(_ query: [String: String]) -> Answer {
        guard let since = Int64(query["since"] ?? "0"), query.keys.allSatisfy({ $0 == "since" }) else {
            return Self.refusal(400, "the query is malformed")
        }
        let timeline = self.world.ledger.snapshot.timeline
        var writer = LineWriter()
        for (index, bucket) in timeline.buckets.enumerated() {
            let time = timeline.start + Int64(index) * AcceptanceTimeline.bucketNanoseconds
            guard time >= since, bucket.count(nil) > 0 else { continue }
            writer.begin()
            writer.member("time", time)
            writer.member("apns", Int64(bucket.apns))
            writer.member("fcm", Int64(bucket.fcm))
            writer.end()
        }
        return .text(status: 200, type: "application/x-ndjson", body: writer.bytes)
    }

    private func accepted(_ query: [String: String]) -> Answer {
        let provider = query["provider"].flatMap { Provider(name: $0) }
        guard let since = Int64(query["since"] ?? "0"), (query["provider"] == nil) == (provider == nil),
            Set(["since", "provider", "send"]).isSuperset(of: query.keys)
        else { return Self.refusal(400, "the query is malformed") }
        let count = self.world.ledger.snapshot.acceptedCount(since: since, provider: provider, send: query["send"])
        return Self.json(200, JSONValue.object(["accepted": .integer(count)]).bytes)
    }

    private func listeners(_ body: [UInt8]) -> Answer {
        let order = try? JSONValue(parsing: body, bytesMax: SimulatorLimits.controlBodyBytesMax)
        var wanted: [(FaultRoute, Bool)] = []
        for member in order?.object?.members ?? [] {
            guard let route = FaultRoute(name: member.name), route != .oauth, let isOpen = member.value.bool else {
                return Self.refusal(400, "an object is expected: apns or fcm, and true or false")
            }
            wanted.append((route, isOpen))
        }
        guard !wanted.isEmpty else { return Self.refusal(400, "no listener is named") }
        let (orders, setListening) = (wanted, self.setListening)
        return .later {
            do throws(SimulatorError) {
                for (route, isListening) in orders { try await setListening(route, isListening) }
                return (200, "application/json", Array("{}".utf8))
            } catch {
                return (409, "application/json", JSONValue.object(["error": .string(error.message)]).bytes)
            }
        }
    }

    private var sends: Answer {
        var writer = LineWriter()
        for tally in self.world.ledger.snapshot.sends {
            writer.begin()
            writer.member("send", tally.send)
            writer.member("requests", Int64(tally.requests))
            writer.member("accepted", Int64(tally.accepted))
            writer.member("repeated", Int64(tally.repeated))
            writer.member("first", tally.first)
            writer.member("last", tally.last)
            writer.end()
        }
        return .text(status: 200, type: "application/x-ndjson", body: writer.bytes)
    }

    private func order(_ path: String, _ body: [UInt8]) -> Answer {
        do throws(SimulatorError) {
            if path == "/faults" {
                let order = try FaultOrder(json: body)
                if let plan = order.plan { self.world.faults.adopt(plan, now: self.world.clock.now()) }
                guard order.scripts.allSatisfy(self.world.faults.add) else {
                    return Self.refusal(409, "too many scripts wait")
                }
            } else {
                let order = try FateOrder(json: body)
                self.world.change { order.apply(to: &$0.fates) }
            }
            return Self.json(200, Array("{}".utf8))
        } catch {
            return Self.refusal(400, error.field.isEmpty ? error.message : "\(error.field): \(error.message)")
        }
    }
}
