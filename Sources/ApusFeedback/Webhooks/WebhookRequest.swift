internal import ApusCore
internal import ApusMessages
internal import ApusStreams
internal import ApusTLS
internal import FoundationEssentials

/// Builds one request to a webhook: receipts as JSON, signed. It is pure.
///
/// The header `Apus-Signature` is `t=<seconds since 1970>,v1=<64 hexadecimal digits>`: HMAC-SHA-256, by the shared secret, of the digits of
/// `t`, a full stop, and the body as it was received. The receiver compares in constant time, and refuses a `t` that is more than a few
/// minutes off, so that nobody can send an old request again. `Apus-Delivery` is the same for the same batch: a repeated batch is
/// recognised by it, or by the receipts' own ids.
///
/// Beside them stand the headers of Standard Webhooks, for receivers that have its libraries: `webhook-id` is that of `Apus-Delivery`, and
/// `webhook-signature` has a signature by each secret, so that one can be exchanged for another without a request that is refused.
///
/// Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
struct WebhookRequest: Hashable, Sendable {
    static let signatureHeader = "apus-signature"
    static let deliveryHeader = "apus-delivery"
    static let idHeader = "webhook-id"
    static let timestampHeader = "webhook-timestamp"
    static let standardSignatureHeader = "webhook-signature"

    let body: [UInt8]
    /// The signature by the first secret.
    let signature: String
    let delivery: String
    /// The time that is signed, in seconds since 1970.
    let seconds: Int64
    /// The signatures by each secret, in the form of Standard Webhooks.
    let standardSignature: String

    /// - Parameters:
    ///   - entries: entries of one stream, in their order, with the receipts in them; at least one.
    ///   - secrets: the current one first, then those that receivers may still have.
    ///   - now: the time that is signed.
    init(_ entries: [(id: String, receipt: SendReceipt)], shard: Int, secrets: [[UInt8]], now: UnixMilliseconds) {
        precondition(!entries.isEmpty, "a request has at least one receipt")
        precondition(!secrets.isEmpty, "a request is signed")
        let receipts = entries.map { JSONValue.object($0.receipt.json) }
        self.body = JSONValue.object(["receipts": .array(receipts)]).bytes
        self.signature = Self.signature(of: self.body, secret: secrets[0], seconds: now.seconds)
        let delivery = "\(shard)/\(entries[0].id)/\(entries.count)"
        let (signed, body) = (Array("\(delivery).\(now.seconds).".utf8), self.body)
        self.delivery = delivery
        self.seconds = now.seconds
        self.standardSignature = secrets.map { secret in
            "v1," + Data(HMACSHA256.authenticate(signed, body, key: secret)).base64EncodedString()
        }.joined(separator: " ")
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
        if self.publishedAtNanoseconds != 0 {
            json["published_at_ms"] = .integer(self.publishedAtNanoseconds / 1_000_000)
        }
        if let firstAt { json["first_at_ms"] = .integer(firstAt.value) }
        if let lastAt { json["last_at_ms"] = .integer(lastAt.value) }
        if let problem {
            json["problem"] = [
                "code": .string(problem.code), "field": .string(problem.field), "detail": .string(problem.detail),
            ]
        }
        for (name, text) in [
            ("traceparent", self.traceparent), ("tracestate", self.tracestate),
            ("idempotency_key", self.idempotencyKey), ("duplicate_of", self.duplicateOf),
        ] where !text.isEmpty { json[name] = .string(text) }
        if !self.recipients.isEmpty {
            json["recipients"] = .array(self.recipients.map { .object($0.json) })
        }
        if self.kind == .dryRun { json["dry_run"] = .object(self.findings) }
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
