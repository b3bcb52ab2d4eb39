internal import ApusCore

/// The command of `POST /dead`: behaviors of tokens, and the share of dead ones.
package struct TokenCommand: Sendable {
    private var behaviors: [(digest: TokenDigest, behavior: TokenBehavior)] = []
    private var share: DeadShare?

    /// Parses a command; see ``ControlRoutes``.
    package init(json: [UInt8]) throws(SimulatorError) {
        let command = try JSONValue(command: json)
        guard let members = command.object?.members else { throw Self.invalid("an object is expected") }
        let known = ["provider", "dead", "expired", "bad", "foreign", "alive", "share", "seed"]
        if let stranger = members.first(where: { !known.contains($0.name) }) {
            throw Self.invalid("\(stranger.name) is unknown")
        }
        if let share = command["share"] {
            guard let value = share.double, (0...1).contains(value) else { throw Self.invalid("share is 0 to 1") }
            guard let seed = command["seed"].map(\.int64) ?? 0, seed >= 0 else {
                throw Self.invalid("seed is a number")
            }
            self.share = DeadShare(value, seed: UInt64(seed))
        }
        let provider = command["provider"]?.string.flatMap(Provider.init(simulated:))
        for name in known[1...5] {
            guard let list = command[name] else { continue }
            guard let provider else { throw Self.invalid("provider is \(SimulatedProviders.names)") }
            guard let elements = list.array else { throw Self.invalid("\(name) is not a list") }
            for element in elements {
                if let stranger = element.object?.members.first(where: { !["token", "at"].contains($0.name) }) {
                    throw Self.invalid("\(name): \(stranger.name) is unknown")
                }
                guard let token = element.string ?? element["token"]?.string else {
                    throw Self.invalid("\(name) holds a value that is not a token")
                }
                let time = element["at"]?.int64.map { UnixMilliseconds($0) }
                let behavior = try Self.behavior(name, at: time)
                self.behaviors.append((TokenDigest(token, provider: provider), behavior))
            }
        }
    }

    private static func invalid(_ what: String) -> SimulatorError { SimulatorError(.invalidDeclaration, what) }

    private static func behavior(_ name: String, at time: UnixMilliseconds?) throws(SimulatorError) -> TokenBehavior {
        switch name {
        case "bad": return .bad
        case "foreign": return .foreign
        case "alive": return .alive
        default:
            guard let time else { throw Self.invalid("\(name) needs a token and at, in milliseconds") }
            return name == "dead" ? .dead(since: time) : .expired(since: time)
        }
    }

    /// Applies the command.
    package func apply(to behaviors: inout TokenBehaviors) {
        for (digest, behavior) in self.behaviors { behaviors.declare(behavior, of: digest) }
        if let share { behaviors.deadShare = share }
    }
}
