internal import ApusCommand
internal import ApusConsole
package import ApusCore
package import ApusInstallation
package import ApusMessages
internal import ApusProviders
internal import ApusStore
internal import ApusTLS
internal import ApusWebPush
internal import NIOCore

/// Takes back what a send has left at push services, for devices that it named: the histories of these have the addresses of their messages.
///
/// What no push service gives back can be replaced, if the notification had a collapse key: a message of the same key that shows nothing
/// takes the place of one that is still undelivered.
package struct SendRecall: Sendable {
    /// The results for one device.
    package enum Result: Hashable, Sendable {
        /// The message was deleted before it was delivered.
        case recalled
        /// The message was delivered, or has expired.
        case gone
        /// Its provider takes nothing back.
        case notHeld
        /// The history of the device has no acceptance of the send.
        case unknown
        /// The push service did not delete it, for the given reason.
        case refused(String)

        /// The result in words.
        package var text: String {
            switch self {
            case .recalled: "recalled"
            case .gone: "delivered or expired before"
            case .notHeld: "its provider takes nothing back"
            case .unknown: "not known to have been accepted"
            case .refused(let word): "not recalled: \(word)"
            }
        }
    }

    private let access: ProviderAccess
    private let installation: Installation
    private let app: AppID
    private let send: String

    /// Creates the recall of a send.
    package init(_ access: ProviderAccess, _ installation: Installation, app: AppID, send: String) {
        self.access = access
        self.installation = installation
        self.app = app
        self.send = send
    }

    /// Returns the devices of the given ids and of users, each once.
    package func devices(_ devices: [DeviceID], users: [UserID]) async throws -> [DeviceID] {
        var ids = devices
        for owned in try await self.installation.store.resolve(self.app, users: users) {
            for device in owned { ids.append(try DeviceID(device.record.device)) }
        }
        var seen: Set<DeviceID> = []
        return ids.filter { seen.insert($0).inserted }
    }

    /// Recalls the message of each device; returns the results in their order.
    package func run(_ devices: [DeviceID]) async throws -> [Result] {
        var results: [Result] = []
        var messages: [(index: Int, message: StoredMessage)] = []
        for (index, device) in devices.enumerated() {
            let history = try await self.installation.store.history(self.app, device)
            let acceptance = history.last { $0.kind == .accepted && $0.send == self.send }
            results.append(acceptance == nil ? .unknown : .notHeld)
            guard let acceptance, acceptance.provider == .webpush, let message = StoredMessage(acceptance.providerID)
            else {
                continue
            }
            messages.append((index, message))
        }
        guard let first = messages.first else { return results }
        guard let settings = self.access.settings.webpush else {
            throw CommandFailure("\(self.app) has no webpush in the configuration")
        }
        let client = try await ProviderAccess.connect(
            first.message.address,
            try ProviderAccess.tls(settings.caFile),
            ProviderAccess.eventLoop,
            over: settings.connectURL.flatMap { WebAddress(https: $0) },
        )
        defer { client.close() }
        for (index, message) in messages {
            let answer = await client.send(try message.deletion())
            results[index] =
                switch answer.map({ StoredMessage.recall(status: $0.status) }) {
                case .recalled?: .recalled
                case .gone?: .gone
                case .refused(let word)?: .refused(word)
                case nil: .refused("\(message.address.host) gave no answer")
                }
        }
        return results
    }

    /// The time to live of a replacement: it is needed only where the message before it still waits.
    private static let replacementMilliseconds: Int64 = 60_000

    /// Returns the send that replaces what waits for devices by a message that shows nothing.
    ///
    /// - Parameter collapseKey: the collapse key of the notification that is replaced.
    package func replacement(for devices: [DeviceID], collapseKey: String) -> SendCommand {
        var notification = Notification()
        notification.kind = .background
        notification.collapseKey = collapseKey
        notification.data = ["apus_recalled": self.send]
        notification.expiry = .ttl(milliseconds: Self.replacementMilliseconds)
        return SendCommand(app: self.app.text, target: .devices(devices.map(\.text)), notification: notification)
    }
}
