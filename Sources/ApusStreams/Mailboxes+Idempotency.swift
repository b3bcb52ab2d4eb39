internal import ApusCore
internal import ApusMessages
package import ApusRedis

// Deduplication: an idempotency key names one send for as long as the window lasts. `publish`, `admit` and `accept` keep and compare the
// keys (`idempotency_shared.lua`).

extension Mailboxes {
    /// Sets for how long an idempotency key counts at least in one shard, in one attempt.
    package func setIdempotencyWindow(milliseconds: Int64, in tag: HashTag) async throws(RedisError) {
        let call = SetIdempotencyWindowCall(
            keys: [StreamKeys(tag: tag).idempotency],
            windowMilliseconds: milliseconds,
        )
        _ = try await self.access.client.call(call, on: tag, options: .init(isIdempotent: true, patience: .zero))
    }

    /// Returns the place of a published send's command ("<stream>/<entry>"); nil when nothing is known of it any more, or ever was.
    func origin(app: String, send: String) async throws(RedisError) -> String? {
        let keys = self.access.home(app: app, send)
        let call = FindIdempotencyKeyCall(
            keys: [keys.idempotency],
            key: SendIdentity.key(ofID: send, app: app),
        )
        let origin = try await self.access.call(call, on: keys.tag).text()
        return origin.isEmpty ? nil : origin
    }

    /// Lets a direct send be sent again whose handling is given up, where its entry lies in another shard than its home: there ``ReplayLog/gaveUp(_:)``
    /// does not see its admission. Its home must not know it after a failover; and where the server of its mailbox has forgotten the entry, which
    /// nobody has then, the home forgets its key.
    ///
    /// - Parameter tag: the tag of the entry's shard.
    func gaveUp(_ entry: StreamEntry, tag: HashTag) async throws(RedisError) {
        guard StreamKeys(tag: tag).lane(ofMailbox: entry.stream) != nil else { return }
        let head = CommandHead(reading: entry.message)
        let home = self.access.home(app: head.app, head.idempotencyKey.isEmpty ? head.id : head.idempotencyKey)
        guard home.tag != tag, let log = self.access.replayLogs[home.tag], let admission = log.admission(of: entry.name)
        else { return }
        let range = RedisCommand("XRANGE", .text(entry.stream), .text(entry.id), .text(entry.id))
        let fields = try await self.access.readCurrent(range, on: tag).element(0)?.element(1)?.children
        let isThere = fields?.contains { EntryName.digest(of: $0.bytes ?? []) == entry.name.digest } ?? false
        // A send that is kept has its end.
        let state = home.send(SendKey(app: admission.app, id: admission.send))
        let kept = RedisCommand("HGET", .text(state), "origin")
        if !isThere, !admission.key.isEmpty,
            try await self.access.readCurrent(kept, on: home.tag).string != entry.origin
        {
            let call = ForgetIdempotencyKeyCall(keys: admission.keys, key: admission.key, origin: entry.origin)
            _ = try await self.access.call(call, on: home.tag) { $0.integer == 1 ? call : nil }
        }
        log.forgetAdmission(of: entry.name)
    }

    /// Forgets an idempotency key, if it is that origin's, so that the same command may come from another.
    func forgetKey(of command: SendCommand, origin: String) async throws {
        let identity = SendIdentity(of: command, source: origin)
        guard !identity.key.isEmpty else { return }
        let keys = self.access.home(of: identity)
        let call = ForgetIdempotencyKeyCall(
            keys: [keys.idempotency],
            key: identity.key,
            origin: origin,
        )
        _ = try await self.access.call(call, on: keys.tag)
    }
}

struct SetIdempotencyWindowCall: FunctionCall {
    static let function = "apus2_set_idempotency_window"
    var keys: [String]
    var windowMilliseconds: Int64

    func set(_ fields: inout CallFields) {
        fields.set("window_ms", self.windowMilliseconds)
    }
}

struct FindIdempotencyKeyCall: FunctionCall {
    static let function = "apus2_find_idempotency_key"
    static let isReadOnly = true
    var keys: [String]
    var key: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("key", CallBytes(self.key))
    }
}

struct RestoreCommandCall: FunctionCall {
    static let function = "apus2_restore_command"
    var keys: [String]
    var key: [UInt8]
    var origin: String
    var command: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("key", CallBytes(self.key))
        fields.set("origin", self.origin)
        fields.set("command", CallBytes(self.command))
    }
}

struct ForgetIdempotencyKeyCall: FunctionCall {
    static let function = "apus2_forget_idempotency_key"
    var keys: [String]
    var key: [UInt8]
    var origin: String

    func set(_ fields: inout CallFields) {
        fields.set("key", CallBytes(self.key))
        fields.set("origin", self.origin)
    }
}
