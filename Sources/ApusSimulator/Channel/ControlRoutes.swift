internal import ApusCore
internal import ApusMetrics

/// Answers the requests to the control listener.
///
/// ```
/// GET  /ledger?provider=&status=&send=&token=&since=&limit=   every message, NDJSON
/// GET  /sends                                                 the counters of each send, NDJSON
/// GET  /summary                                               counters, JSON
/// GET  /metrics                                               the same for Prometheus
/// GET  /timeline?since=                                       acceptances in every 10 ms that have some, NDJSON
/// GET  /accepted?since=&provider=&send=                       the number of acceptances since then, JSON
/// GET  /ca.pem                                                the certificate to trust
/// POST /dead     {"provider": "…", "dead": [{"token": "…", "at": 1700000000000}], "expired": [], "bad": ["…"],
///                 "foreign": [], "alive": [], "share": 0.02, "seed": 7}
/// POST /faults   see FaultCommand
/// POST /listeners  {"name of a provider": false}: closes a provider's listener and connections; true: opens it again
/// POST /reset    clears ledger, behaviors of tokens and faults
/// ```
struct ControlRoutes: Sendable {
    private let state: SimulatorState
    private let authorityPEM: String
    private let setListening: @Sendable (FaultRoute, Bool) async throws(SimulatorError) -> Void

    init(
        state: SimulatorState,
        authorityPEM: String,
        setListening: @escaping @Sendable (FaultRoute, Bool) async throws(SimulatorError) -> Void,
    ) {
        self.state = state
        self.authorityPEM = authorityPEM
        self.setListening = setListening
    }

    /// The forms of answers: a text, the ledger piece by piece, or a text that takes a moment.
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
            return .ledger(LedgerReader(self.state.ledger.snapshot, filter: filter))
        case ("GET", "/sends"): return self.sends
        case ("GET", "/summary"):
            return Self.json(200, self.state.summary.json)
        case ("GET", "/metrics"):
            let summary = self.state.summary
            return .later {
                (200, SimulatorMetrics.format.contentType, await SimulatorMetrics.exposition(summary))
            }
        case ("GET", "/timeline"): return self.timeline(query)
        case ("GET", "/accepted"): return self.accepted(query)
        case ("GET", "/ca.pem"):
            return .text(status: 200, type: "application/x-pem-file", body: Array(self.authorityPEM.utf8))
        case ("POST", "/reset"):
            self.state.reset()
            return Self.json(200, Array("{}".utf8))
        case ("POST", "/faults"), ("POST", "/dead"): return self.command(path, body)
        case ("POST", "/listeners"): return self.listeners(body)
        case (_, "/ledger"), (_, "/sends"), (_, "/summary"), (_, "/metrics"), (_, "/ca.pem"), (_, "/reset"),
            (_, "/faults"), (_, "/dead"), (_, "/timeline"), (_, "/accepted"), (_, "/listeners"):
            return Self.refusal(405, "this path requires another method")
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
        let timeline = self.state.ledger.snapshot.timeline
        let providers = SimulatedProviders.all.map { $0.traits.provider }
        var writer = LineWriter()
        for (index, bucket) in timeline.buckets.enumerated() {
            let time = timeline.start + Int64(index) * AcceptanceTimeline.bucketNanoseconds
            guard time >= since, bucket.count(nil) > 0 else { continue }
            writer.begin()
            writer.member("time", time)
            for provider in providers { writer.member(provider.name, Int64(bucket.count(provider))) }
            writer.end()
        }
        return .text(status: 200, type: "application/x-ndjson", body: writer.bytes)
    }

    private func accepted(_ query: [String: String]) -> Answer {
        let provider = query["provider"].flatMap { Provider(name: $0) }
        guard let since = Int64(query["since"] ?? "0"), (query["provider"] == nil) == (provider == nil),
            Set(["since", "provider", "send"]).isSuperset(of: query.keys)
        else { return Self.refusal(400, "the query is malformed") }
        let count = self.state.ledger.snapshot.acceptedCount(since: since, provider: provider, send: query["send"])
        return Self.json(200, JSONValue.object(["accepted": .integer(count)]).bytes)
    }

    private func listeners(_ body: [UInt8]) -> Answer {
        let command = try? JSONValue(command: body)
        var wanted: [(FaultRoute, Bool)] = []
        for member in command?.object?.members ?? [] {
            guard let route = FaultRoute(name: member.name), route.isListener, let isOpen = member.value.bool else {
                return Self.refusal(
                    400,
                    "the body must be an object of \(SimulatedProviders.names), each true or false"
                )
            }
            wanted.append((route, isOpen))
        }
        guard !wanted.isEmpty else { return Self.refusal(400, "no listener is named") }
        let (changes, setListening) = (wanted, self.setListening)
        return .later {
            do throws(SimulatorError) {
                for (route, isListening) in changes { try await setListening(route, isListening) }
                return (200, "application/json", Array("{}".utf8))
            } catch {
                return (409, "application/json", JSONValue.object(["error": .string(error.message)]).bytes)
            }
        }
    }

    private var sends: Answer {
        var writer = LineWriter()
        for tally in self.state.ledger.snapshot.sends {
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

    private func command(_ path: String, _ body: [UInt8]) -> Answer {
        do throws(SimulatorError) {
            if path == "/faults" {
                let command = try FaultCommand(json: body)
                if let plan = command.plan { self.state.faults.adopt(plan, now: self.state.clock.now()) }
                guard command.scripts.allSatisfy(self.state.faults.add) else {
                    return Self.refusal(409, "too many scripts are waiting")
                }
            } else {
                let command = try TokenCommand(json: body)
                self.state.change { command.apply(to: &$0.behaviors) }
            }
            return Self.json(200, Array("{}".utf8))
        } catch {
            return Self.refusal(400, error.field.isEmpty ? error.message : "\(error.field): \(error.message)")
        }
    }
}
