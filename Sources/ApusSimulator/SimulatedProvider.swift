package import ApusCore
package import ApusTLS

/// The providers that the simulator imitates. A new one has a folder of its own and a line here.
enum SimulatedProviders {
    static let all: [any SimulatedProvider.Type] = [
        SimulatedAPNs.self,
        SimulatedFCM.self,
    ]

    private static let types = Dictionary(uniqueKeysWithValues: Self.all.map { ($0.traits.provider, $0) })

    static func type(of provider: Provider) -> (any SimulatedProvider.Type)? { Self.types[provider] }

    /// The providers' names as a sentence lists them: "one, two or three".
    static let names = Self.listed(Self.all.map { $0.traits.provider.name })

    static func listed(_ names: [String]) -> String {
        names.count < 2 ? names.joined() : "\(names.dropLast().joined(separator: ", ")) or \(names[names.count - 1])"
    }
}

/// A kind of request that faults strike and counters count by itself, such as a provider's messages or its access tokens.
public struct FaultRoute: Hashable, Sendable, CaseIterable {
    /// The highest ``number``.
    static let numberMax: UInt8 = 4

    /// From 1 to ``numberMax``: it stands in packed ledger entries and seeds the faults.
    let number: UInt8
    /// The name in plans, ledgers and summaries.
    public let name: String

    init(_ number: UInt8, _ name: String) {
        precondition((1...Self.numberMax).contains(number), "a route's number is out of range")
        self.number = number
        self.name = name
    }

    /// Finds a route by its name.
    public init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }

    /// The routes of all providers.
    public static let allCases = SimulatedProviders.all.flatMap { $0.traits.routes }
    /// The names of all routes as a sentence lists them.
    static let names = SimulatedProviders.listed(Self.allCases.map(\.name))
    /// The type of provider behind each number; the first number belongs to none.
    private static let types: [(any SimulatedProvider.Type)?] = (0...Self.numberMax).map { number in
        SimulatedProviders.all.first { $0.traits.routes.contains { $0.number == number } }
    }

    private static let providers = Self.types.map { $0?.traits.provider }

    /// The type of provider that serves it.
    var type: any SimulatedProvider.Type {
        guard let type = Self.types[Int(self.number)] else { preconditionFailure("no provider serves \(self.name)") }
        return type
    }

    /// The provider that serves the route of a number.
    static func provider(number: UInt8) -> Provider {
        guard let provider = Self.providers[Int(number)] else { preconditionFailure("route \(number) is unknown") }
        return provider
    }

    /// True when it names a provider's listener: the route of its messages does.
    var isListener: Bool { self == self.type.traits.routes[0] }

    /// Compares the numbers.
    public static func == (one: FaultRoute, other: FaultRoute) -> Bool { one.number == other.number }

    /// Hashes the number.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.number) }
}

/// The constants of a simulated provider.
package struct ProviderTraits: Sendable {
    /// The provider that it imitates.
    let provider: Provider
    /// Its routes; the first one is that of messages and names its listener.
    let routes: [FaultRoute]
    /// True when its listener takes HTTP/1.1 beside HTTP/2.
    var speaksHTTP1 = false
    /// True when its listener asks clients for a certificate, which they may refuse to show.
    var asksForCertificate = false
    /// True when a client may send one request at a time until its credentials were accepted.
    var startsWithOneStream = false
    /// The header that a request carries its id in; nil when accepted messages are numbered by the simulator.
    var idHeader: String?
    /// The quoted key that a payload carries the send's id under.
    let sendKey: StaticString
    /// The path that tokens of 64 hexadecimal digits follow; nil when tokens are not in the path.
    var tokenPath: String?
    /// The errors that it can name for one token of a batch.
    var resultWords: [String] = []
    /// Its part of the example of a script.
    let example: ScriptExample
}

/// A provider's lines in the example of a script, each ending without a newline.
struct ScriptExample: Sendable {
    /// Rates of faults.
    let rates: String
    /// A phase.
    let phase: String
    /// Single faults.
    let scripts: String
    /// A token's schedule.
    let token: String
}

/// A push service that the simulator imitates: what its listener serves, how it validates requests, words refusals and treats tokens,
/// which credentials it hands out and which faults it can answer with.
///
/// Nothing outside a provider's folder names it, but ``SimulatedProviders``.
package protocol SimulatedProvider: Sendable {
    /// Its constants.
    static var traits: ProviderTraits { get }

    /// Creates the store of the keys and accounts that it hands out; nil for it hands out none.
    static func makeKeys() -> (any ProviderKeys)?

    /// Creates a provider that knows those keys.
    init(_ configuration: SimulatorConfiguration, _ keys: SimulatorKeys)

    /// Takes over the keys of apps that were registered meanwhile.
    func update(_ keys: SimulatorKeys)

    /// Takes over the addresses, once all listeners are open.
    func update(_ addresses: SimulatorAddresses)

    /// Forgets what requests changed.
    func reset()

    /// The members of `ports.json` that it has beside its port.
    static func members(of addresses: SimulatorAddresses) -> JSONObject

    // MARK: Requests

    /// The route of a request to that path.
    static func route(path: Span<UInt8>) -> FaultRoute

    /// Opens a connection whose requests are validated.
    func connect() -> any ProviderConnection

    /// The recipient of a request that was not validated; nil when the request is no message, and is counted only.
    static func recipient(of request: ProviderRequest) -> Recipient?

    /// The recipient of a request to a fast connection; nil when the request is no message, and is counted only.
    static func recipient(path: [UInt8], body: Span<UInt8>) -> Recipient?

    /// The answer of a fast connection to a request that it accepts; nil: 200 without a body.
    func fastAnswer(_ route: FaultRoute, number: UInt64, now: UnixMilliseconds) -> ProviderAnswer?

    // MARK: Tokens

    /// The bytes that a token is known by in tables and in the ledger.
    static func tokenBytes(_ token: String) -> [UInt8]

    /// The answer to a message to a token of that behavior; nil when it is accepted.
    static func answer(to behavior: TokenBehavior) -> ProviderAnswer?

    // MARK: Faults

    /// The reasons that can be asked for on a route.
    static func reasons(of route: FaultRoute) -> [String]

    /// The answer that carries a reason; nil when the route knows no such reason.
    ///
    /// - Parameter id: the id of the request, from its ``ProviderTraits/idHeader``.
    static func answer(reason: String, route: FaultRoute, id: String?, now: UnixMilliseconds) -> ProviderAnswer?

    /// The answer to `tooManyRequests`, `unavailable` or `internalError`.
    static func answer(status fault: Fault, route: FaultRoute, id: String?) -> ProviderAnswer

    /// The answer to a request that a fault struck; nil for faults without an answer.
    static func answer(_ fault: Fault, to request: ProviderRequest, _ context: RequestContext) -> ProviderAnswer?

    /// Returns true when a request to that path uses up the quota of messages.
    static func usesQuota(path: Span<UInt8>) -> Bool

    /// Returns true when a request to that path names many tokens and is answered for each.
    static func isBatch(path: Span<UInt8>) -> Bool
}

extension SimulatedProvider {
    package static func makeKeys() -> (any ProviderKeys)? { nil }
    package func update(_ keys: SimulatorKeys) {}
    package func update(_ addresses: SimulatorAddresses) {}
    package func reset() {}
    package static func members(of addresses: SimulatorAddresses) -> JSONObject { [:] }
    package static func route(path: Span<UInt8>) -> FaultRoute { Self.traits.routes[0] }
    package func fastAnswer(_ route: FaultRoute, number: UInt64, now: UnixMilliseconds) -> ProviderAnswer? { nil }
    package static func tokenBytes(_ token: String) -> [UInt8] { Array(token.utf8) }
    package static func usesQuota(path: Span<UInt8>) -> Bool { false }
    package static func isBatch(path: Span<UInt8>) -> Bool { false }
}

/// A connection to a simulated provider: validates requests and remembers what later ones depend on.
package protocol ProviderConnection {
    /// True when the client may send several requests at a time.
    var isAuthorized: Bool { get }
    /// The reason of the GOAWAY that every request gets instead of an answer; nil when there is none.
    var goAwayReason: String? { get }

    /// Takes the certificate that the client showed in the handshake.
    mutating func present(_ certificate: Certificate)

    /// Validates a request.
    mutating func validate(_ request: ProviderRequest, _ context: RequestContext) -> Validation
}

extension ProviderConnection {
    package var isAuthorized: Bool { true }
    package var goAwayReason: String? { nil }
    package mutating func present(_ certificate: Certificate) {}
}

/// A validated request: its answer, and its recipient as the validator read it.
package struct Validation: Sendable {
    /// The answer.
    var answer: ProviderAnswer
    /// nil when the request is no message, and is counted only.
    var recipient: Recipient?
}

/// The recipient of a message, as the ledger keeps it.
package struct Recipient: Sendable {
    /// Raw bytes if `isRaw`, else text: a token, a topic, a condition or a channel.
    package let token: [UInt8]
    /// True when the token is shown in hexadecimal.
    var isRaw = false
}

/// The circumstances of a request.
package struct RequestContext: Sendable {
    /// The route of its path.
    let route: FaultRoute
    /// The fault that struck it.
    let fault: Fault?
    /// The form of `Retry-After` beside 429 and 503.
    let retryAfter: RetryAfterForm
    /// A number that no other request to the simulator has.
    let number: UInt64
    /// The time in milliseconds.
    let now: UnixMilliseconds
    /// The time in nanoseconds since 1970.
    let nanoseconds: Int64
    /// The behaviors of tokens.
    let behaviors: TokenBehaviors
}

extension Provider {
    /// Finds a simulated provider by its name.
    init?(simulated name: String) {
        guard let type = SimulatedProviders.all.first(where: { $0.traits.provider.name == name }) else { return nil }
        self = type.traits.provider
    }
}
