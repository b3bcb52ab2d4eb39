internal import ApusCore
internal import ApusMessages
internal import ApusStreams
internal import ApusTLS

/// Builds one request to a webhook: receipts as JSON, signed. It is pure.
///
/// The header `Apus-Signature` is `t=<seconds since 1970>,v1=<64 hexadecimal digits>`: HMAC-SHA-256, by the shared secret, of the digits of
/// `t`, a full stop, and the body as it was received. The receiver compares in constant time, and refuses a `t` that is more than a few
/// minutes off, so that nobody can send an old request again. `Apus-Delivery` is the same for the same batch: a repeated batch is
/// recognised by it, or by the receipts' own ids.
struct WebhookRequest: Hashable, Sendable {
    static let signatureHeader = "apus-signature"
    static let deliveryHeader = "apus-delivery"

    let body: [UInt8]
    let signature: String
    let delivery: String

    /// - Parameters:
    ///   - entries: entries of one stream, in their order, with the receipts in them; at least one.
    ///   - now: the time that is signed.
    init(_ entries: [(id: String, receipt: SendReceipt)], shard: Int, secret: [UInt8], now: UnixMilliseconds) {
        precondition(!entries.isEmpty, "a request has at least one receipt")
        let receipts = entries.map { JSONValue.object($0.receipt.json) }
        self.body = JSONValue.object(["receipts": .array(receipts)]).bytes
        self.signature = Self.signature(of: self.body, secret: secret, seconds: now.seconds)
        self.delivery = "\(shard)/\(entries[0].id)/\(entries.count)"
    }

    static func signature(of body: [UInt8], secret: [UInt8], seconds: Int64) -> String {
        let code = HMACSHA256.authenticate(Array("\(seconds).".utf8), body, key: secret)
        return "t=\(seconds),v1=\(Hexadecimal.encode(code))"
    }
}

extension SendReceipt {
    /// Returns a receipt as webhooks show it; missing values are left out.
    var json: JSONObject {
        var json: JSONObject = [
            "id": .string(self.id), "send": .string(self.send), "app": .string(self.app),
            "kind": .string(self.kind.name), "planned": .integer(self.planned),
            "counts": .array(
                self.counts.map { count in
                    [
                        "provider": .string(count.provider.name), "outcome": .string(count.outcome.name),
                        "reason": .string(count.reason.name), "count": .integer(count.count),
                    ]
                }
            ),
        ]
        if let firstAt { json["first_at_ms"] = .integer(firstAt.value) }
        if let lastAt { json["last_at_ms"] = .integer(lastAt.value) }
        if let problem {
            json["problem"] = [
                "code": .string(problem.code), "field": .string(problem.field), "detail": .string(problem.detail),
            ]
        }
        if !self.duplicateOf.isEmpty { json["duplicate_of"] = .string(self.duplicateOf) }
        if !self.recipients.isEmpty {
            json["recipients"] = .array(self.recipients.map { .object($0.json) })
        }
        return json
    }
}

extension SendReceipt.Kind {
    fileprivate var name: String {
        switch self {
        case .refused: "refused"
        case .progress: "progress"
        case .final: "final"
        case .recipients: "recipients"
        case .dryRun: "dry_run"
        }
    }
}

extension RecipientOutcome {
    fileprivate var json: JSONObject {
        var json: JSONObject = [
            "outcome": .string(self.outcome.name), "reason": .string(self.reason.name),
            "at_ms": .integer(self.at.value),
        ]
        switch self.place {
        case .device(let place):
            json["place"] = .string("\(place.partition)/\(place.ordinal)/\(place.generation)")
        case .address(let index): json["address"] = .integer(index)
        }
        if !self.device.isEmpty { json["device"] = .string(self.device) }
        if let provider = self.provider { json["provider"] = .string(provider.name) }
        if !self.providerReason.isEmpty { json["provider_reason"] = .string(self.providerReason) }
        if !self.providerID.isEmpty { json["provider_id"] = .string(self.providerID) }
        return json
    }
}
