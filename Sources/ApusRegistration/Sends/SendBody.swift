internal import ApusCore
internal import ApusMessages

/// Reads the body of `POST …/sends`, in either format. It is pure. Only the form is checked here; the content is checked where all sends
/// are, and the receipt reports the result.
enum SendBody {
    /// Reads the bytes of the body.
    ///
    /// - Parameter app: the app in the path; the body may repeat it, but not name another.
    static func read(_ bytes: [UInt8], as type: MediaType, app: AppID) throws(ProblemDetails) -> SendCommand {
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
        if !command.id.isEmpty {
            do throws(IdentifierError) { _ = try SendID(command.id) } catch {
                throw .invalid("#/id", "must be \(error.rule)")
            }
        }
        do throws(MessageError) {
            _ = try command.encode()
        } catch {
            throw .invalid(RegistrationBody.pointer(error.field), error.detail)
        }
        return command
    }

    private static func json(_ bytes: [UInt8], app: AppID) throws(ProblemDetails) -> SendCommand {
        let object = try RegistrationBody.object(bytes, bytesMax: APILimits.sendBytesMax)
        var reader = MemberReader(object, at: "#")
        for name in ["target", "notification"] where !reader.has(name) { reader.note(name, "must be given") }
        var targetReader = MemberReader(reader.object("target") ?? [:], at: "#/target")
        let target = reader.has("target") ? Self.target(&targetReader) : nil
        var notificationReader = NotificationBody(reader.object("notification") ?? [:], at: "#/notification")
        let notification = notificationReader.read()
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
        let mistakes = reader.mistakes + targetReader.mistakes + notificationReader.mistakes
        guard mistakes.isEmpty else { throw .invalid(mistakes) }
        return command
    }

    private static let audiences = [
        "addresses", "devices", "users", "topic", "condition", "expression", "everyone", "fcm_topic", "fcm_condition",
        "fcm_group", "apns_channel",
    ]

    private static func target(_ reader: inout MemberReader) -> Target? {
        let named = Self.audiences.filter { name in reader.has(name) }
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
            var inner = MemberReader(reader.object(name) ?? [:], at: "#/target/apns_channel")
            let environment = inner.word("environment", ProviderEnvironment.allCases, \.name) ?? .production
            let channel = inner.text("channel_id") ?? ""
            let storesLatest = inner.truth("stores_latest") ?? false
            reader.take(inner.mistakes)
            return .apnsChannel(id: channel, environment: environment, storesLatest: storesLatest)
        default:
            var inner = MemberReader(reader.object(name) ?? [:], at: "#/target/everyone")
            var providers: [Provider] = []
            for (index, text) in (inner.texts("providers") ?? []).enumerated() {
                if let provider = Provider(known: text) {
                    providers.append(provider)
                } else {
                    inner.note("providers/\(index)", "must be one of apns, fcm, webpush")
                }
            }
            reader.take(inner.mistakes)
            return .everyone(providers)
        }
    }

    private static func addresses(_ reader: inout MemberReader) -> [Address] {
        var addresses: [Address] = []
        for (index, object) in (reader.objects("addresses") ?? []).enumerated() {
            var inner = MemberReader(object, at: "#/target/addresses/\(index)")
            for name in ["provider", "token"] where !inner.has(name) { inner.note(name, "must be given") }
            var address = Address(
                provider: inner.word("provider", Provider.allCases, \.name) ?? Provider.allCases[0],
                token: inner.text("token") ?? "",
            )
            address.environment = inner.word("environment", ProviderEnvironment.allCases, \.name) ?? .production
            address.kind = inner.word("kind", TokenKind.allCases, \.name) ?? .device
            if let breach = RegistrationRules.tokenKind(address.kind, of: address.provider) {
                inner.note("kind", breach)
            }
            address.webpushP256DH = inner.bytes("webpush_p256dh") ?? []
            address.webpushAuth = inner.bytes("webpush_auth") ?? []
            address.applicationServerKey = inner.bytes("application_server_key") ?? []
            address.locale = inner.text("locale") ?? ""
            reader.take(inner.mistakes)
            addresses.append(address)
        }
        return addresses
    }
}
