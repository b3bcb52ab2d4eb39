package import ApusCore
internal import ApusHTTP2
package import ApusProviders
internal import ApusRedis
package import ApusService
internal import ApusTLS
internal import Foundation
internal import Logging
internal import NIOCore
internal import NIOPosix

/// How commands reach an app's providers: with the configuration's credentials, over a connection of their own.
package struct ProviderAccess: Sendable {
    /// What the configuration says of the app.
    package let settings: AppSettings
    /// The app.
    let app: AppID
    private let clock = CommandClock()

    private static var eventLoop: any EventLoop { MultiThreadedEventLoopGroup.singleton.next() }
    private static var logger: Logger { Logger(label: "apus") { _ in SwiftLogNoOpLogHandler() } }

    /// Reads the configuration.
    ///
    /// - Parameter file: nil: the usual one.
    package init(app: AppID, configuration file: String?) throws {
        let source = SettingsSource(given: file, environment: ProcessInfo.processInfo.environment)
        let common: CommonSettings
        do throws(SettingsError) {
            common = try source.loadCommon()
        } catch {
            throw CommandFailure("\(error)")
        }
        guard let settings = common.apps[app] else {
            let place = source.file ?? "the environment"
            throw CommandFailure("there is no app \(app) in \(place): name the services' file with --config")
        }
        self.app = app
        self.settings = settings
    }

    // MARK: Apple

    /// Asks Apple's channel management.
    ///
    /// - Parameter redis: where dispatchers share the provider token, so that the team does not get one too many.
    /// - Throws: `APNsChannelRefusal`: Apple's no; `CommandFailure`: why it could not be asked.
    func ask(
        _ question: APNsChannelQuestion,
        in environment: ProviderEnvironment,
        redis: RedisClient,
    ) async throws -> APNsChannelReply {
        guard let apns = self.settings.apns else {
            throw CommandFailure("\(self.app) has no apns in the configuration")
        }
        guard apns.environments.contains(environment) else {
            throw CommandFailure("\(self.app) does not use Apple's \(environment.name) environment")
        }
        let (credential, identity) = try self.proof(apns, environment, redis)
        var address = APNsChannelHost.address(of: environment)
        if let text = apns.channelsURL {
            guard let given = WebAddress(https: text) else {
                throw CommandFailure("apps.\(self.app).apns.channels_url is no address: \(text)")
            }
            address = given
        }
        let eventLoop = Self.eventLoop
        let request = try question.request(
            bundleID: apns.topic,
            authority: address.authority,
            authorization: try await Self.header(credential, eventLoop),
        )
        let tls = try Self.tls(apns.caFile, showing: identity)
        let answer = try await Self.connected(address, tls, eventLoop) { await $0.ask(request) }
        guard let answer else { throw CommandFailure("Apple at \(address.authority) did not answer in time") }
        return try question.reply(answer)
    }

    /// With what Apple is shown who asks: tokens of a key, or a certificate when connecting. Channel management takes both
    /// (https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns).
    private func proof(
        _ apns: APNsSettings,
        _ environment: ProviderEnvironment,
        _ redis: RedisClient,
    ) throws -> (any ProviderCredential, TLSIdentity?) {
        switch apns.credential(for: environment) {
        case .key(let teamID, let keyID, let file):
            let key = try Self.read(file) { try APNsProviderKey(keyID: keyID, teamID: teamID, pem: $0) }
            let store = SharedTokens(client: redis)
            return (APNsCredential(key: key, store: store, clock: self.clock, logger: Self.logger), nil)
        case .certificate(let file, let keyFile, let passwordFile):
            let secrets = try [keyFile, passwordFile].map { name in try name.map { try Self.read($0) { $0 } } }
            let certificate = try Self.read(file) { bytes in
                let certificate = try APNsCertificate(
                    file: bytes,
                    key: secrets[0],
                    password: secrets[1],
                    topics: apns.topics,
                )
                try certificate.check(bundleID: apns.topic, environment: environment)
                try certificate.scope.checkChannel(of: apns.topic)
                return certificate
            }
            return (APNsCertificateCredential(certificate, clock: self.clock), certificate.identity)
        }
    }

    // MARK: Google

    /// Which of Google's interfaces changes topics.
    package enum TopicInterface: String, CaseIterable, Sendable {
        /// Many tokens in one request; Google removes it on 2027-09-29.
        case instanceID = "instance-id"
        /// One app instance in each request: for new projects.
        case subscriptions
    }

    /// Changes who is in FCM's topics; what became of each app instance comes in the order given.
    package typealias TopicDesk = (FCMTopicChange, [String]) async throws -> [FCMTopicOutcome]

    /// Runs `body` with a connection for changes of topics, which is made anew for the next change when it has ended. App instances are
    /// named by token or, with ``TopicInterface/subscriptions``, by installation id too.
    package func withTopics<Result>(
        by interface: TopicInterface,
        _ body: (TopicDesk) async throws -> Result,
    ) async throws -> Result {
        guard let fcm = self.settings.fcm else { throw CommandFailure("\(self.app) has no fcm in the configuration") }
        guard let base = WebAddress(https: fcm.baseURL) else {
            throw CommandFailure("fcm.base_url is no https address")
        }
        let tls = try Self.tls(fcm.caFile)
        let eventLoop = Self.eventLoop
        let account = try Self.read(fcm.serviceAccountFile) { try ServiceAccount(json: $0) }
        guard let tokenURL = WebAddress(https: fcm.tokenURL ?? account.tokenURI) else {
            throw CommandFailure("the token address of \(fcm.serviceAccountFile) is no https address")
        }
        let source = AccessTokenClient(address: tokenURL, eventLoop: eventLoop, tls: tls, logger: Self.logger)
        let credential = FCMCredential(account: account, source: source, clock: self.clock, logger: Self.logger)
        // A stand-in for Google answers for both of its hosts.
        let isInstanceID = interface == .instanceID && base.host == "fcm.googleapis.com"
        let address = isInstanceID ? WebAddress(host: InstanceIDTopics.host) : base
        var client = try await Self.connect(address, tls, eventLoop)
        defer { client.close() }
        return try await body { change, instances in
            if await !client.isOpen {
                client.close()
                guard let next = try? await Self.connect(address, tls, eventLoop) else {
                    return Array(repeating: .later, count: instances.count)
                }
                client = next
            }
            let asked = client
            guard let header = try await Self.header(credential, eventLoop) else {
                preconditionFailure("an account makes headers")
            }
            switch interface {
            case .instanceID: return try await Self.batches(change, instances, address, header, asked)
            case .subscriptions:
                return try await Self.oneByOne(instances) { instance in
                    let request = try TopicSubscriptions.request(
                        change,
                        instance: instance,
                        project: fcm.projectID,
                        authority: address.authority,
                        authorization: header,
                    )
                    let answer = await asked.ask(request)
                    return TopicSubscriptions.outcome(status: answer?.status ?? 503, body: answer?.body ?? [])
                }
            }
        }
    }

    private static func batches(
        _ change: FCMTopicChange,
        _ instances: [String],
        _ address: WebAddress,
        _ header: HeaderValue,
        _ client: PlainClient,
    ) async throws -> [FCMTopicOutcome] {
        var outcomes: [FCMTopicOutcome] = []
        for batch in InstanceIDTopics.batches(instances) {
            let request = try InstanceIDTopics.request(
                change,
                tokens: batch,
                authority: address.authority,
                authorization: header,
            )
            let answer = await client.ask(request)
            // Without an answer it may be tried again: repeating changes nothing.
            let (status, body) = (answer?.status ?? 503, answer?.body ?? [])
            outcomes += InstanceIDTopics.outcomes(status: status, body: body, count: batch.count)
        }
        return outcomes
    }

    /// Questions under way at a time, of those that name one app instance each.
    private static let questionsMax = 64

    private static func oneByOne(
        _ instances: [String],
        _ ask: @escaping @Sendable (String) async throws -> FCMTopicOutcome,
    ) async throws -> [FCMTopicOutcome] {
        try await withThrowingTaskGroup(of: (Int, FCMTopicOutcome).self) { group in
            var outcomes = Array(repeating: FCMTopicOutcome.later, count: instances.count)
            for (index, instance) in instances.enumerated() {
                if index >= Self.questionsMax, let (done, outcome) = try await group.next() { outcomes[done] = outcome }
                group.addTask { (index, try await ask(instance)) }
            }
            for try await (done, outcome) in group { outcomes[done] = outcome }
            return outcomes
        }
    }

    // MARK: Credentials and connections

    /// The value of `authorization`; nil: the connection says who asks.
    private static func header(
        _ credential: any ProviderCredential,
        _ eventLoop: any EventLoop,
    ) async throws -> HeaderValue? {
        switch try await credential.grant(on: eventLoop).get() {
        case .usable(let header, _): return header
        case .connection: return nil
        case .unavailable: throw CommandFailure("there is no access token: the token endpoint does not answer")
        case .paused(let detail): throw CommandFailure(detail)
        }
    }

    private static func read<Value>(_ path: String, _ parse: ([UInt8]) throws -> Value) throws -> Value {
        do {
            return try parse(Array(try Data(contentsOf: URL(filePath: path))))
        } catch {
            throw CommandFailure("\(path) cannot be used: \(error)")
        }
    }

    private static func tls(_ caFile: String?, showing identity: TLSIdentity? = nil) throws -> TLSContext {
        do {
            let trust = caFile.map { TLSTrust.file($0) } ?? .system
            return try TLSContext.client(trust: trust, certificate: identity, alpn: ["h2"])
        } catch {
            throw CommandFailure("\(caFile ?? "the system's certificates") cannot be used: \(error)")
        }
    }

    private static func connected<Result>(
        _ address: WebAddress,
        _ tls: TLSContext,
        _ eventLoop: any EventLoop,
        _ body: (PlainClient) async throws -> Result,
    ) async throws -> Result {
        let client = try await Self.connect(address, tls, eventLoop)
        defer { client.close() }
        return try await body(client)
    }

    private static func connect(
        _ address: WebAddress,
        _ tls: TLSContext,
        _ eventLoop: any EventLoop,
    ) async throws -> PlainClient {
        do {
            return try await PlainClient.connect(to: address, tls: tls, on: eventLoop)
        } catch {
            throw CommandFailure("no connection to \(address.authority): \(error)")
        }
    }
}
