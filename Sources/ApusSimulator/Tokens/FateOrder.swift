internal import ApusCore

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
