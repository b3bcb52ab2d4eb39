internal import ApusCore
internal import ApusProviders
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Lets routes go on whose set-up is mended, though nobody says so: a role was granted at Google, a key is valid again at Apple, the
/// dispatcher was started with another configuration.
///
/// The provider is asked with a request that reaches no device: see ``CredentialProbe``. At the start about every route that is stopped
/// for our set-up, later about those whose credential is refused, as `FaultRetests` says.
struct FaultWatch: Sendable {
    /// How often the routes are looked at.
    static let beat: Duration = .seconds(5)

    let factory: GatewayFactory
    let routes: RouteBook
    let streams: SendStreams
    let eventLoop: any EventLoop
    let clock: any WallClock
    let logger: Logger
    var rules = FaultRetests.Rules()

    /// Looks until the task is cancelled.
    func run() async {
        var retests = FaultRetests(self.rules)
        var isStart = true
        while !Task.isCancelled {
            for entry in self.routes.apps.values.joined() {
                do {
                    guard case .byFault(let fault)? = try await self.streams.state(of: entry.number).stop else {
                        _ = retests.isDue(entry.number, nil, now: Self.now(), draw: 0)
                        continue
                    }
                    let isDue = retests.isDue(entry.number, fault, now: Self.now(), draw: Double.random(in: 0..<1))
                    if isDue || isStart { try await self.ask(entry, fault) }
                } catch {
                    self.logger.debug("a route was not looked at", metadata: ["error": "\(error)"])
                }
            }
            isStart = false
            try? await Task.sleep(for: Self.beat)
        }
    }

    private func ask(_ entry: RouteBook.Entry, _ fault: RouteFault) async throws {
        let verdict = try await self.factory.probe(entry, now: self.clock.now(), on: self.eventLoop)
        switch verdict {
        case .taken: try await self.letGoOn(entry)
        case .refused(let word), .unanswered(let word):
            self.logger.info(
                "the provider was asked again, and the route stays stopped",
                metadata: ["route": "\(entry.route)", "word": "\(word)"]
            )
        }
    }

    /// The provider takes our set-up.
    func letGoOn(_ entry: RouteBook.Entry) async throws {
        guard try await self.streams.mended(entry.number) else { return }
        self.logger.notice("the provider takes our set-up: the route goes on", metadata: ["route": "\(entry.route)"])
    }

    private static func now() -> UInt64 { NIODeadline.now().uptimeNanoseconds }
}
