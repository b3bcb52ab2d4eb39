internal import ApusCore
internal import ApusProviders
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Lets routes go on whose configuration the provider takes again, though nobody says so: a role was granted, a key is valid again, the
/// dispatcher was started with another configuration.
///
/// The provider is asked with a request that reaches no device: see ``CredentialProbe``. At the start about every route that is stopped,
/// if it is configured otherwise than those who were refused or it is the credential that was; later about refused credentials alone, as
/// `FaultRetests` says.
struct FaultWatch: Sendable {
    /// How often the routes are looked at.
    static let interval: Duration = .seconds(5)

    let factory: GatewayFactory
    let routes: RouteTable
    let streams: SendStreams
    let eventLoop: any EventLoop
    let logger: Logger
    var rules = FaultRetests.Rules()

    /// Looks until the task is cancelled.
    func run() async {
        var retests = FaultRetests(self.rules)
        var unasked = Set(self.routes.numbers)
        while !Task.isCancelled {
            for entry in self.routes.entries {
                do {
                    try await self.look(at: entry, &retests, &unasked)
                } catch {
                    self.logger.debug("a route was not looked at", metadata: ["error": "\(error)"])
                }
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    private func look(
        at entry: RouteTable.Entry,
        _ retests: inout FaultRetests,
        _ unasked: inout Set<RouteNumber>,
    ) async throws {
        let state = try await self.streams.routes.state(of: entry.number)
        guard case .byFault(let fault)? = state.stop else {
            _ = retests.isDue(entry.number, nil, now: Self.now(), draw: 0)
            unasked.remove(entry.number)
            return
        }
        let isDue = retests.isDue(entry.number, fault, now: Self.now(), draw: Double.random(in: 0..<1))
        // Of the same configuration it is known what the provider says, unless that is about rights or keys, which it may have changed.
        let isNews =
            fault.kind == .credential
            || !state.rejectedConfigurations.contains(self.factory.configurationFingerprint(of: entry.number))
        guard isDue || unasked.contains(entry.number) && isNews else { return }
        switch try await self.factory.probe(entry, on: self.eventLoop) {
        case .taken:
            unasked.remove(entry.number)
            try await self.letGoOn(entry)
        case .refused(let word):
            unasked.remove(entry.number)
            self.report(entry, word)
        case .unanswered(let word): self.report(entry, word)
        }
    }

    private func report(_ entry: RouteTable.Entry, _ word: String) {
        self.logger.info(
            "the provider was asked again, and the route stays stopped",
            metadata: ["route": "\(entry.route)", "word": "\(word)"]
        )
    }

    /// Lets a route go on whose configuration the provider takes.
    func letGoOn(_ entry: RouteTable.Entry) async throws {
        guard try await self.streams.routes.restore(entry.number) else { return }
        self.logger.notice(
            "the provider takes our configuration: the route goes on",
            metadata: ["route": "\(entry.route)"]
        )
    }

    private static func now() -> UInt64 { NIODeadline.now().uptimeNanoseconds }
}
