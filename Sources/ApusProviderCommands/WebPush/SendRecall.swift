internal import ApusCommand
package import ApusCore
package import ApusInstallation
package import ApusMessages
internal import ApusProviders
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTLS
internal import ApusTerminal
internal import ApusWebPush
internal import NIOCore

/// Takes back what a send has left at push services, for devices whose histories, or the send's receipts, have the addresses of their messages.
///
/// Messages that no push service gives back can be replaced, if the notification had a collapse key: a message of the same key takes the place of one
/// that is still undelivered. It shows nothing, or a title.
package struct SendRecall: Sendable {
    /// The results for one device.
    package enum Result: Hashable, Sendable {
        /// The message was deleted before it was delivered.
        case recalled
        /// The message was delivered, or has expired.
        case gone
        /// Its provider takes nothing back.
        case notHeld
        /// Neither the history of the device nor a receipt has an acceptance of the send.
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

    /// The devices of a send that named none, as far as anything is known of them.
    package struct Found: Hashable, Sendable {
        /// The devices whose histories, or receipts, say that the send was accepted for them.
        package var devices: [DeviceID] = []
        /// The number of recipients that the ledger counts as accepted; nil when the send has no ledger, as one to a few devices, or none
        /// any more.
        package var acceptedCount: UInt64?

        /// Says for how many recipients nothing can be done; nil when there are none.
        package var omission: String? {
            let missing = (self.acceptedCount ?? 0) - min(self.acceptedCount ?? 0, UInt64(self.devices.count))
            guard missing > 0 else { return nil }
            return
                "\(missing) of \(self.acceptedCount ?? 0) acceptances are in no history and no receipt: nothing is recalled for them. "
                + "Histories are kept of sends to at most \(Limits.directRecipientsMax) devices or users, receipts of single recipients of "
                + "sends that ask for them. To replace a larger send, name its topic and its collapse key"
        }
    }

    /// Finds the devices of the send by their histories: it reads those of all devices of the app.
    package func find() async throws -> Found {
        var found = Found()
        let (store, app, send) = (self.installation.store, self.app, self.send)
        try await store.forEachDevice(app) { devices in
            let ids = devices.compactMap { try? DeviceID($0.device.record.device) }
            let accepted = try await forEachConcurrently(ids) { id in
                try await store.history(app, id).contains { $0.kind == .accepted && $0.send == send }
            }
            found.devices += zip(ids, accepted).filter(\.1).map(\.0)
        }
        let known = Set(found.devices)
        found.devices += try await self.receipts().keys.filter { !known.contains($0) }.sorted { $0.text < $1.text }
        let ledger = try await self.installation.streams.outcomes.ledger(app: app.text, send: send)
        found.acceptedCount = ledger?.total(.accepted)
        return found
    }

    /// The number of receipts that are read at a time.
    private static let receiptsPerRead = 1_000

    /// Reads the receipts of all shards for the send's accepted devices, with the providers' own ids of their messages. There are none when the
    /// send did not ask for an outcome of each recipient, or had a stream of its own for them.
    private func receipts() async throws -> [DeviceID: String] {
        var found: [DeviceID: String] = [:]
        let (streams, client) = (self.installation.streams, self.installation.client)
        for shard in 0..<self.installation.keyspace.queueShards {
            let keys = streams.keys(shard: shard)
            var next = "-"
            while true {
                let command = RedisCommand(
                    "XRANGE",
                    .text(keys.receipts),
                    .text(next),
                    "+",
                    "COUNT",
                    .integer(Int64(Self.receiptsPerRead)),
                )
                let reply = try await client.send(command, on: keys.tag)
                let entries = Array(reply.root.children)
                for entry in entries {
                    guard let receipt = try? SendReceipt.decode(entry.element(1)?.element(1)?.bytes ?? []),
                        receipt.kind == .recipients, receipt.send == self.send, receipt.app == self.app.text
                    else { continue }
                    for recipient in receipt.recipients where recipient.outcome == .accepted {
                        if let device = try? DeviceID(recipient.device) { found[device] = recipient.providerID }
                    }
                }
                guard entries.count == Self.receiptsPerRead, let last = entries.last?.element(0)?.string else { break }
                next = "(\(last)"
            }
        }
        return found
    }

    /// Returns those of the devices whose push service takes no message that shows nothing.
    package func refusingSilence(_ devices: [DeviceID]) async throws -> Set<DeviceID> {
        var refusing: Set<DeviceID> = []
        for id in devices {
            guard let device = try await self.installation.store.get(self.app, id), device.realm.provider == .webpush,
                let endpoint = WebPushEndpoint(String(decoding: device.record.token, as: UTF8.self)),
                endpoint.refusesSilence
            else { continue }
            refusing.insert(id)
        }
        return refusing
    }

    /// Recalls the message of each device; returns the results in their order.
    package func run(_ devices: [DeviceID]) async throws -> [Result] {
        var results: [Result] = []
        var messages: [(index: Int, message: StoredMessage)] = []
        let receipts = try await self.receipts()
        for (index, device) in devices.enumerated() {
            let history = try await self.installation.store.history(self.app, device)
            let acceptance = history.last { $0.kind == .accepted && $0.send == self.send }
            // Only a push service's id of a message is an address.
            let id = acceptance?.providerID ?? receipts[device]
            results.append(id == nil ? .unknown : .notHeld)
            if let id, let message = StoredMessage(id) { messages.append((index, message)) }
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

    /// Returns the send that replaces what waits for its target.
    ///
    /// - Parameters:
    ///   - collapseKey: the collapse key of the notification that is replaced.
    ///   - title: the title of the replacement; nil for a message that shows nothing.
    package func replacement(for target: Target, collapseKey: String, title: String?) -> SendCommand {
        var notification = Notification()
        if let title { notification.title = title } else { notification.kind = .background }
        notification.collapseKey = collapseKey
        notification.data = ["apus_recalled": self.send]
        notification.expiry = .ttl(milliseconds: Self.replacementMilliseconds)
        return SendCommand(app: self.app.text, target: target, notification: notification)
    }
}
