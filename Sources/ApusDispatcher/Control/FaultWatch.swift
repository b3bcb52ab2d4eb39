internal import ApusCore
internal import ApusProviders
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Resumes stopped routes when the provider accepts their configuration again.
///
/// A provider does not announce that a role was granted or that a key is valid again. The watch therefore asks it with
/// a request that reaches no device: see ``CredentialProbe``.
///
/// After the dispatcher starts, it probes each stopped route, if the route's fault is about the credential or the
/// route's configuration is not among those that the provider has refused, until there is an answer. Later it probes only
/// routes with refused credentials. `FaultRetests` sets the times. A route whose provider cannot be asked resumes with another
/// configuration than those that were refused; and with the same one if it was another process that was refused, and this one's requests are
/// accepted.
struct FaultWatch: Sendable {
    /// The time between two checks of all routes.
    static let interval: Duration = .seconds(5)

    let factory: GatewayFactory
    let routes: RouteTable
    let streams: SendStreams
    let eventLoop: any EventLoop
    let logger: Logger
    var rules = FaultRetests.Rules()

    /// Checks the routes until the task is cancelled.
    func run() async {
        var retests = FaultRetests(self.rules, unasked: Set(self.routes.numbers))
        while !Task.isCancelled {
            for entry in self.routes.entries {
                do {
                    try await self.look(at: entry, &retests)
                } catch {
                    self.logger.debug("a route's state was not read", metadata: ["error": "\(error)"])
                }
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    /// Checks one route.
    func look(
        at entry: RouteTable.Entry,
        _ retests: inout FaultRetests,
    ) async throws {
        let state = try await self.streams.routes.state(of: entry.number)
        let fingerprint = self.factory.configurationFingerprint(of: entry.number)
        guard let fault = state.fault(of: fingerprint) else {
            return retests.recordRunning(entry.number, now: Self.now())
        }
        // It was another process that was refused, and alone.
        if state.rejectedConfigurations[fingerprint] == .credential, self.factory.isAccepted(entry.number) {
            return try await self.letGoOn(entry)
        }
        // A configuration that was refused stays refused, unless the fault is the credential: the provider may change
        // rights and keys.
        let isOther = state.rejectedConfigurations[fingerprint] == nil
        let draw = Double.random(in: 0..<1)
        guard retests.isDue(entry.number, fault, isOther: isOther, now: Self.now(), draw: draw) else { return }
        let verdict = try await self.factory.probe(entry, on: self.eventLoop)
        guard !Self.resumes(on: verdict, withOtherConfiguration: isOther) else {
            retests.recordAnswer(entry.number)
            return try await self.letGoOn(entry)
        }
        switch verdict {
        case .taken, .unasked: retests.recordAnswer(entry.number)
        case .refused(let word):
            retests.recordAnswer(entry.number)
            self.report(entry, word)
        case .unanswered(let word): self.report(entry, word)
        }
    }

    /// Returns true if a stopped route resumes.
    ///
    /// - Parameter isOther: true when the provider has not refused the route's configuration.
    static func resumes(on verdict: CredentialProbe.Verdict, withOtherConfiguration isOther: Bool) -> Bool {
        switch verdict {
        case .taken: true
        case .unasked: isOther
        case .refused, .unanswered: false
        }
    }

    private func report(_ entry: RouteTable.Entry, _ word: String) {
        self.logger.info(
            "the provider was asked again, and the route stays stopped",
            metadata: ["route": "\(entry.route)", "word": "\(word)"]
        )
    }

    /// Resumes a route whose configuration the provider accepts, or has not refused.
    func letGoOn(_ entry: RouteTable.Entry) async throws {
        guard try await self.streams.routes.restore(entry.number) else { return }
        self.logger.notice(
            "the route goes on: its configuration is accepted, or another than was refused",
            metadata: ["route": "\(entry.route)"]
        )
    }

    private static func now() -> UInt64 { NIODeadline.now().uptimeNanoseconds }
}
