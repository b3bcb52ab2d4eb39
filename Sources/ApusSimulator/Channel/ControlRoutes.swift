internal import ApusCore

/// What the control listener can do.
///
/// ```
/// GET  /ledger?provider=&status=&send=&token=&since=&limit=   every request, NDJSON
/// GET  /sends                                                 the numbers of each send, NDJSON
/// GET  /summary                                               counters, JSON
/// GET  /ca.pem                                                the certificate to trust
/// POST /dead     {"provider": "apns", "dead": [{"token": "…", "at": 1700000000000}], "expired": [], "bad": ["…"],
///                 "foreign": [], "alive": [], "share": 0.02, "seed": 7}
/// POST /faults   see FaultOrder
/// POST /reset    forgets ledger, declared fates and faults
/// ```
struct ControlRoutes: Sendable {
    private let world: World
    private let authorityPEM: String

    init(world: World, authorityPEM: String) {
        self.world = world
        self.authorityPEM = authorityPEM
    }

    /// An answer at once, or the ledger piece by piece.
    enum Answer {
        case text(status: Int, type: String, body: [UInt8])
        case ledger(LedgerReader)
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
            return Self.json(200, self.world.ledger.snapshot.summary.json)
        case ("GET", "/ca.pem"):
            return .text(status: 200, type: "application/x-pem-file", body: Array(self.authorityPEM.utf8))
        case ("POST", "/reset"):
            self.world.reset()
            return Self.json(200, Array("{}".utf8))
        case ("POST", "/faults"), ("POST", "/dead"): return self.order(path, body)
        case (_, "/ledger"), (_, "/sends"), (_, "/summary"), (_, "/ca.pem"), (_, "/reset"), (_, "/faults"),
            (_, "/dead"):
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
                if let plan = order.plan { self.world.faults.adopt(plan) }
                guard order.scripts.allSatisfy(self.world.faults.add) else {
                    return Self.refusal(409, "too many scripts wait")
                }
            } else {
                let order = try FateOrder(json: body)
                self.world.change { order.apply(to: &$0.fates) }
            }
            return Self.json(200, Array("{}".utf8))
        } catch {
            return Self.refusal(400, error.message)
        }
    }
}

/// What `POST /dead` brings.
package struct FateOrder: Sendable {
    private var fates: [(digest: TokenDigest, fate: TokenFate)] = []
    private var share: DeadShare?

    /// Reads an order; see ``ControlRoutes``.
    package init(json: [UInt8]) throws(SimulatorError) {
        let order: JSONValue
        do throws(JSONError) {
            order = try JSONValue(parsing: json, bytesMax: SimulatorLimits.controlBodyBytesMax)
        } catch {
            throw SimulatorError(.malformedJSON, "not JSON: \(error)")
        }
        guard let members = order.object?.members else { throw Self.invalid("an object is expected") }
        let known = ["provider", "dead", "expired", "bad", "foreign", "alive", "share", "seed"]
        if let stranger = members.first(where: { !known.contains($0.name) }) {
            throw Self.invalid("\(stranger.name) is unknown")
        }
        if let share = order["share"] {
            guard let value = share.double, (0...1).contains(value) else { throw Self.invalid("share is 0 to 1") }
            guard let seed = order["seed"].map(\.int64) ?? 0, seed >= 0 else { throw Self.invalid("seed is a number") }
            self.share = DeadShare(value, seed: UInt64(seed))
        }
        let provider = order["provider"]?.string.flatMap(Provider.init(name:))
        for name in known[1...5] {
            guard let list = order[name] else { continue }
            guard let provider else { throw Self.invalid("provider is apns or fcm") }
            guard let elements = list.array else { throw Self.invalid("\(name) is not a list") }
            for element in elements {
                guard let token = element.string ?? element["token"]?.string else {
                    throw Self.invalid("\(name) holds something that is no token")
                }
                let time = element["at"]?.int64.map { UnixMilliseconds($0) }
                let fate = try Self.fate(name, at: time)
                self.fates.append((TokenDigest(token, provider: provider), fate))
            }
        }
    }

    private static func invalid(_ what: String) -> SimulatorError { SimulatorError(.invalidDeclaration, what) }

    private static func fate(_ name: String, at time: UnixMilliseconds?) throws(SimulatorError) -> TokenFate {
        switch name {
        case "bad": return .bad
        case "foreign": return .foreign
        case "alive": return .alive
        default:
            guard let time else { throw Self.invalid("\(name) needs a token and at, in milliseconds") }
            return name == "dead" ? .dead(since: time) : .expired(since: time)
        }
    }

    /// Declares.
    package func apply(to fates: inout TokenFates) {
        for (digest, fate) in self.fates { fates.declare(fate, of: digest) }
        if let share { fates.deadShare = share }
    }
}
