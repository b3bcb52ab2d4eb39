internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusProviders
internal import ApusService
internal import ApusStreams

/// Reads the body of `POST …/sends`, in either format. It is pure. The rules that all publishers keep, and those that every provider has for a
/// notification, are checked here; those of routes are checked by dispatchers, and the receipt reports the result.
enum SendBody {
    /// Reads the bytes of the body.
    ///
    /// - Parameters:
    ///   - app: the app in the path; the body may repeat it, but not name another.
    ///   - now: the time at which the send is published.
    static func read(
        _ bytes: [UInt8],
        as type: MediaType,
        app: AppID,
        now: UnixMilliseconds,
    ) throws(ProblemDetails) -> SendCommand {
        var command: SendCommand
        switch type {
        case .protobuf:
            do throws(MessageError) {
                command = try SendCommand.decode(bytes)
            } catch {
                guard !error.field.isEmpty else {
                    throw ProblemDetails(.malformedRequest, "the content is not a SendCommand: it \(error.detail)")
                }
                throw .invalid(RegistrationBody.pointer(error.field), error.detail)
            }
        case .json, .mergePatch, .ndjson: command = try Self.json(bytes, app: app)
        }
        if command.app.isEmpty { command.app = app.text }
        guard command.app == app.text else { throw .invalid("#/app", "must be the app of the path") }
        try Self.check(command, now: now)
        return command
    }

    /// Checks the rules that hold whatever routes there are.
    static func check(_ command: SendCommand, now: UnixMilliseconds) throws(ProblemDetails) {
        do throws(Problem) {
            try SendCommandRules.check(command)
            try ProviderList.installed.check(command.target)
            try NotificationRules.check(command.notification)
            try SendCommandRules.checkWorth(of: command, now: now)
        } catch {
            throw .invalid(RegistrationBody.pointer(error.field), error.detail)
        }
        do throws(MessageError) {
            _ = try command.encode()
        } catch {
            throw .invalid(RegistrationBody.pointer(error.field), error.detail)
        }
    }

    /// Refuses receipts that go elsewhere than into the app's own streams, or those of a publisher with mailboxes of its own that may publish for
    /// the app: others would read what is not theirs, and there would be streams without end.
    ///
    /// - Parameter named: the app's named streams.
    static func checkReplyTo(
        of command: SendCommand,
        among publishers: [PublisherName: PublisherSettings],
        named: [String],
    ) throws(ProblemDetails) {
        let owner = publishers.first { StreamKeys.isReceipts(command.replyTo, of: $0.key) }
        if let (name, settings) = owner {
            guard !settings.apps.contains(where: { $0.text == command.app }) else { return }
            let detail = "is a stream of the publisher \(name), which may not publish for \(command.app)"
            throw .invalid("#/reply_to", detail)
        }
        let own = StreamKeys.replyPrefix + command.app
        let isKnown = command.replyTo == own || named.contains { command.replyTo == "\(own):\($0)" }
        guard command.replyTo.isEmpty || isKnown else {
            let detail = "must be \(own), or that with a colon and a name of apps.\(command.app).receipt_streams"
            throw .invalid("#/reply_to", detail)
        }
    }

    private static func json(_ bytes: [UInt8], app: AppID) throws(ProblemDetails) -> SendCommand {
        let object = try RegistrationBody.object(bytes, bytesMax: APILimits.sendBytesMax)
        var reader = MemberReader(object)
        for name in ["target", "notification"] where !reader.has(name) { reader.note(name, "must be given") }
        let target = reader.has("target") ? reader.members("target", Self.target) : nil
        let notification = reader.members("notification", NotificationBody.read)
        var command = SendCommand(app: app.text, target: target ?? .users([]), notification: notification)
        command.app = reader.text("app") ?? app.text
        command.id = reader.text("id") ?? ""
        command.idempotencyKey = reader.text("idempotency_key") ?? ""
        command.notBefore = reader.time("not_before_ms")
        command.replyTo = reader.text("reply_to") ?? ""
        command.receiptLevel =
            reader.word("receipt_level", SendCommand.ReceiptLevel.allCases, SnakeCase.name) ?? .summary
        command.ratePerSecond = reader.number("rate_per_second") ?? 0
        command.delivery = reader.word("delivery", SendCommand.Delivery.allCases, SnakeCase.name) ?? .atLeastOnce
        command.dryRun = reader.truth("dry_run") ?? false
        command.traceparent = reader.text("traceparent") ?? ""
        command.tracestate = reader.text("tracestate") ?? ""
        try reader.check()
        return command
    }

    private static let audiences = [
        "addresses", "devices", "users", "topic", "condition", "expression", "everyone", "fcm_topic", "fcm_condition",
        "fcm_group", "apns_channel",
    ]

    private static func target(_ reader: inout MemberReader) -> Target? {
        var named: [String] = []
        for name in Self.audiences where reader.has(name) { named.append(name) }
        guard named.count == 1, let name = named.first else {
            reader.note("", "must have exactly one of " + Self.audiences.joined(separator: ", "))
            return nil
        }
        switch name {
        case "addresses": return .addresses(Self.addresses(&reader))
        case "devices": return .devices(reader.texts(name) ?? [])
        case "users": return .users(reader.texts(name) ?? [])
        case "topic": return .topic(reader.text(name) ?? "")
        case "condition": return .condition(reader.text(name) ?? "")
        case "expression": return .expression(reader.text(name) ?? "")
        case "fcm_topic": return .fcmTopic(reader.text(name) ?? "")
        case "fcm_group": return .fcmGroup(reader.text(name) ?? "")
        case "fcm_condition": return .fcmCondition(reader.text(name) ?? "")
        case "apns_channel":
            return reader.members(name) { reader in
                .apnsChannel(
                    id: reader.text("channel_id") ?? "",
                    environment: reader.word("environment", ProviderEnvironment.allCases, \.name) ?? .production,
                    storesLatest: reader.truth("stores_latest") ?? false,
                )
            }
        default:
            return reader.members(name) { reader in
                var providers: [Provider] = []
                for (index, text) in (reader.texts("providers") ?? []).enumerated() {
                    if let provider = Provider(known: text) {
                        providers.append(provider)
                    } else {
                        reader.note("providers/\(index)", "must be one of \(Provider.nameList)")
                    }
                }
                return .everyone(providers)
            }
        }
    }

    private static func addresses(_ reader: inout MemberReader) -> [Address] {
        reader.elements("addresses") { reader in
            for name in ["provider", "token"] where !reader.has(name) { reader.note(name, "must be given") }
            var address = Address(
                provider: reader.word("provider", Provider.allCases, \.name) ?? Provider.allCases[0],
                token: reader.text("token") ?? "",
            )
            address.environment = reader.word("environment", ProviderEnvironment.allCases, \.name) ?? .production
            address.kind = reader.word("kind", TokenKind.allCases, \.name) ?? .device
            if let breach = RegistrationRules.tokenKind(address.kind, of: address.provider) {
                reader.note("kind", breach)
            }
            address.webpushP256DH = reader.bytes("webpush_p256dh") ?? []
            address.webpushAuth = reader.bytes("webpush_auth") ?? []
            address.applicationServerKey = reader.bytes("application_server_key") ?? []
            address.locale = reader.text("locale") ?? ""
            return address
        }
    }
}
