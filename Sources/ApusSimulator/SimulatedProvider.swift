package import ApusCore
package import ApusTLS
package import NIOHTTP1

/// Lists the simulated providers. A new one has a folder of its own and a line here.
enum SimulatedProviders {
    static let all: [any SimulatedProvider.Type] = [
        SimulatedAPNs.self,
        SimulatedFCM.self,
        SimulatedWebPush.self,
    ]

    private static let types = Dictionary(uniqueKeysWithValues: Self.all.map { ($0.traits.provider, $0) })

    static func type(of provider: Provider) -> (any SimulatedProvider.Type)? { Self.types[provider] }

    /// The providers' names as a sentence lists them: "one, two or three".
    static let names = Self.listed(Self.all.map { $0.traits.provider.name })

    static func listed(_ names: [String]) -> String {
        names.count < 2 ? names.joined() : "\(names.dropLast().joined(separator: ", ")) or \(names[names.count - 1])"
    }
}

/// A kind of request with faults and counters of its own, such as a provider's messages or its access tokens.
public struct FaultRoute: Hashable, Sendable, CaseIterable {
    /// The maximum ``number``.
    static let numberMax: UInt8 = 4

    /// The number from 1 to ``numberMax``, which packed ledger entries hold and faults are seeded with.
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
    /// The type of provider for each number; number 0 belongs to none.
    private static let types: [(any SimulatedProvider.Type)?] = (0...Self.numberMax).map { number in
        SimulatedProviders.all.first { $0.traits.routes.contains { $0.number == number } }
    }

    private static let providers = Self.types.map { $0?.traits.provider }

    /// The type of provider that serves the route.
    var type: any SimulatedProvider.Type {
        guard let type = Self.types[Int(self.number)] else { preconditionFailure("no provider serves \(self.name)") }
        return type
    }

    /// The provider that serves the route of a number.
    static func provider(number: UInt8) -> Provider {
        guard let provider = Self.providers[Int(number)] else { preconditionFailure("route \(number) is unknown") }
        return provider
    }

    /// True when the route names a provider's listener, as the route of its messages does.
    var isListener: Bool { self == self.type.traits.routes[0] }

    /// Compares the numbers.
    public static func == (one: FaultRoute, other: FaultRoute) -> Bool { one.number == other.number }

    /// Hashes the number.
    public func hash(into hasher: inout Hasher) { hasher.combine(self.number) }
}

/// The constants of a simulated provider.
package struct ProviderTraits: Sendable {
    /// The provider that is simulated.
    let provider: Provider
    /// The routes; the first one is that of messages and names its listener.
    let routes: [FaultRoute]
    /// True when the listener accepts HTTP/1.1 besides HTTP/2.
    var speaksHTTP1 = false
    /// The host names of the provider that the simulator's certificate is valid for, because addresses of recipients name them.
    var serverNames: [String] = []
    /// True when the listener requests a certificate from clients, which they may refuse.
    var asksForCertificate = false
    /// True when a client may send one request at a time until its credentials were accepted.
    var startsWithOneStream = false
    /// The header with a request's id; nil when the simulator numbers accepted messages.
    var idHeader: String?
    /// The quoted key of the send's id in a payload.
    let sendKey: StaticString
    /// The path before a token of 64 hexadecimal digits; nil when tokens are not in the path.
    var tokenPath: String?
    /// The errors for single tokens of a batch.
    var resultWords: [String] = []
    /// The provider's part of the example of a script.
    let example: ScriptExample
}

/// The lines of a provider in the example of a script, each ending without a newline.
struct ScriptExample: Sendable {
    /// The rates of faults.
    let rates: String
    /// A phase.
    let phase: String
    /// The single faults.
    let scripts: String
    /// The schedule of a token.
    let token: String
}

/// A push service that the simulator imitates: its routes, its validation, its refusals, its behavior of tokens, its
/// credentials and its faults.
///
/// Nothing outside a provider's folder names it, except ``SimulatedProviders``.
package protocol SimulatedProvider: Sendable {
    /// The constants of the provider.
    static var traits: ProviderTraits { get }

    /// Creates the store of the provider's keys and accounts; nil when it has none.
    static func makeKeys() -> (any ProviderKeys)?

    /// Creates a provider with the given keys.
    init(_ configuration: SimulatorConfiguration, _ keys: SimulatorKeys)

    /// Adopts the keys of apps that were registered meanwhile.
    func update(_ keys: SimulatorKeys)

    /// Adopts the addresses, once all listeners are open.
    func update(_ addresses: SimulatorAddresses)

    /// Discards the changes that requests made.
    func reset()

    /// The protocols that a client of the control port can upgrade to.
    var upgraders: [any HTTPServerProtocolUpgrader & Sendable] { get }

    /// Returns the provider's members of `ports.json` besides its port.
    static func members(of addresses: SimulatorAddresses) -> JSONObject

    // MARK: Requests

    /// Returns the route of requests to a path.
    static func route(path: Span<UInt8>) -> FaultRoute

    /// Opens a connection whose requests are validated.
    func connect() -> any ProviderConnection

    /// Returns the recipient of a request that was not validated; nil for a request without a message, which is only counted.
    static func recipient(of request: ProviderRequest) -> Recipient?

    /// Returns the recipient of a request to a fast connection; nil for a request without a message, which is only counted.
    static func recipient(path: [UInt8], body: Span<UInt8>) -> Recipient?

    /// Returns the answer of a fast connection to an accepted request; nil for 200 without a body.
    func fastAnswer(_ route: FaultRoute, number: UInt64, now: UnixMilliseconds) -> ProviderAnswer?

    // MARK: Tokens

    /// Returns the bytes of a token in tables and in the ledger.
    static func tokenBytes(_ token: String) -> [UInt8]

    /// Returns the answer to a message to a token with the given behavior; nil when it is accepted.
    static func answer(to behavior: TokenBehavior) -> ProviderAnswer?

    // MARK: Faults

    /// Returns the reasons that faults can use on a route.
    static func reasons(of route: FaultRoute) -> [String]

    /// Returns the answer with a reason; nil when the route has no such reason.
    ///
    /// - Parameter id: the id of the request, from its ``ProviderTraits/idHeader``.
    static func answer(reason: String, route: FaultRoute, id: String?, now: UnixMilliseconds) -> ProviderAnswer?

    /// Returns the answer to `tooManyRequests`, `unavailable` or `internalError`.
    static func answer(status fault: Fault, route: FaultRoute, id: String?) -> ProviderAnswer

    /// Returns the answer to a request with a fault; nil for faults without an answer.
    static func answer(_ fault: Fault, to request: ProviderRequest, _ context: RequestContext) -> ProviderAnswer?

    /// Returns true when requests to a path count against the quota of messages.
    static func usesQuota(path: Span<UInt8>) -> Bool

    /// Returns true when requests to a path name many tokens and are answered for each.
    static func isBatch(path: Span<UInt8>) -> Bool
}

extension SimulatedProvider {
    package static func makeKeys() -> (any ProviderKeys)? { nil }
    package func update(_ keys: SimulatorKeys) {}
    package func update(_ addresses: SimulatorAddresses) {}
    package func reset() {}
    package var upgraders: [any HTTPServerProtocolUpgrader & Sendable] { [] }
    package static func members(of addresses: SimulatorAddresses) -> JSONObject { [:] }
    package static func route(path: Span<UInt8>) -> FaultRoute { Self.traits.routes[0] }
    package func fastAnswer(_ route: FaultRoute, number: UInt64, now: UnixMilliseconds) -> ProviderAnswer? { nil }
    package static func tokenBytes(_ token: String) -> [UInt8] { Array(token.utf8) }
    package static func usesQuota(path: Span<UInt8>) -> Bool { false }
    package static func isBatch(path: Span<UInt8>) -> Bool { false }
}

/// A connection to a simulated provider: validates requests and keeps the state that later ones depend on.
package protocol ProviderConnection {
    /// True when the client may send several requests at a time.
    var isAuthorized: Bool { get }
    /// The reason of the GOAWAY that replaces every answer; nil for none.
    var goAwayReason: String? { get }

    /// Receives the certificate that the client presented in the handshake.
    mutating func present(_ certificate: Certificate)

    /// Validates a request.
    mutating func validate(_ request: ProviderRequest, _ context: RequestContext) -> Validation
}

extension ProviderConnection {
    package var isAuthorized: Bool { true }
    package var goAwayReason: String? { nil }
    package mutating func present(_ certificate: Certificate) {}
}

/// The result of validating a request: its answer, and its recipient.
package struct Validation: Sendable {
    /// The answer.
    var answer: ProviderAnswer
    /// The recipient; nil for a request without a message, which is only counted.
    var recipient: Recipient?
    /// The content that has the send's id; nil when that is the body as it came.
    var content: [UInt8]?
}

/// The recipient of a message in the ledger's form.
package struct Recipient: Sendable {
    /// The raw bytes if `isRaw`, otherwise text: a token, a topic, a condition or a channel.
    package let token: [UInt8]
    /// True when the token is shown in hexadecimal.
    var isRaw = false
}

/// The context of a request.
package struct RequestContext: Sendable {
    /// The route of its path.
    let route: FaultRoute
    /// The fault of the request.
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
    /// Returns a simulated provider by its name.
    init?(simulated name: String) {
        guard let type = SimulatedProviders.all.first(where: { $0.traits.provider.name == name }) else { return nil }
        self = type.traits.provider
    }
}
