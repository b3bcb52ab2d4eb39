internal import ApusAPNs
internal import ApusCore
internal import ApusFCM
internal import ApusWebPush

/// The targets for answers of providers.
extension FuzzTarget {
    private static let statuses = [
        200, 201, 400, 401, 403, 404, 405, 410, 413, 429, 500, 502, 503, 504, 100, 301, 418, 999,
    ]

    /// Takes the status off, which the first byte chooses.
    private static func takeStatus(_ input: inout [UInt8]) -> Int {
        Self.statuses[Int(input.takeFirst()) % Self.statuses.count]
    }

    static let answers = [
        FuzzTarget(
            "apns-answer",
            words: Self.jsonWords + [
                "\"reason\":", "\"timestamp\":", "\"BadDeviceToken\"", "\"Unregistered\"", "\"ExpiredToken\"",
                "\"Shutdown\"",
            ],
            seeds: [
                [7] + #"{"reason":"Unregistered","timestamp":1700000000000}"#.bytes,
                [2] + #"{"reason":"BadDeviceToken"}"#.bytes,
                [4] + #"{"reason":"ExpiredProviderToken"}"#.bytes,
            ]
        ) { input in
            var input = input
            let status = Self.takeStatus(&input)
            let outcome = APNsAnswer(status: status, body: input).outcome(retryAfterMilliseconds: 5)
            if case .unregistered = outcome {
                try require(status == 410, "a token is called dead by a \(status)")
            }
            _ = APNsAnswer.goAway(debug: input)
        },
        FuzzTarget(
            "fcm-answer",
            words: Self.jsonWords + [
                "\"error\":", "\"code\":", "\"status\":", "\"details\":", "\"errorCode\":", "\"UNREGISTERED\"",
                "\"INVALID_ARGUMENT\"",
                "\"@type\":\"type.googleapis.com/google.firebase.fcm.v1.FcmError\"", "\"fieldViolations\":",
                "\"field\":\"message.token\"",
                "\"retryDelay\":\"3s\"",
            ],
            seeds: [
                [5]
                    + #"{"error":{"code":404,"status":"NOT_FOUND","details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}"#
                    .bytes,
                [2]
                    + #"{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.token","description":"Invalid registration token"}]}]}}"#
                    .bytes,
            ]
        ) { input in
            var input = input
            let status = Self.takeStatus(&input)
            let outcome = FCMAnswer(status: status, body: input).outcome(retryAfterMilliseconds: nil)
            if case .unregistered = outcome {
                // Nothing but the provider's own word may cost a device its token.
                let names = JSONText.strings(in: input)
                try require(names.contains("UNREGISTERED"), "a token is called dead without UNREGISTERED")
            }
        },
        FuzzTarget(
            "webpush-answer",
            words: Self.jsonWords + ["\"errno\":", "\"reason\":", "103", "105", "106", "\"BadWebPushTopic\""],
            seeds: [
                [7] + #"{"code":410,"errno":106,"error":"Gone"}"#.bytes,
                [2] + #"{"reason":"BadAuthorizationHeader"}"#.bytes,
                [4] + "UnauthorizedRegistration".bytes,
            ]
        ) { input in
            var input = input
            let status = Self.takeStatus(&input)
            let outcome = WebPushAnswer(status: status, body: input).outcome(retryAfterMilliseconds: 7)
            if case .accepted = outcome { try require((200...299).contains(status), "a \(status) counts as accepted") }
        },
        FuzzTarget(
            "oauth-answer",
            words: Self.jsonWords + [
                "\"access_token\":", "\"expires_in\":", "\"token_type\":\"Bearer\"", "\"error\":\"invalid_grant\"",
                "\"error_description\":",
            ],
            seeds: [
                [0] + #"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#.bytes,
                [2] + #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#.bytes,
            ]
        ) { input in
            var input = input
            let status = Self.takeStatus(&input)
            _ = OAuthAnswer(status: status, body: input, retryAfterMilliseconds: 3)
        },
    ]
}

/// Finds texts in JSON whatever its shape.
enum JSONText {
    /// Every text that is a value; empty when the bytes are no JSON.
    static func strings(in bytes: [UInt8]) -> Set<String> {
        guard let value = try? JSONValue(parsing: bytes, bytesMax: 1_000_000) else { return [] }
        var strings: Set<String> = []
        var waiting = [value]
        while let value = waiting.popLast() {
            if let text = value.string { strings.insert(text) }
            waiting += value.array ?? []
            waiting += value.object?.members.map(\.value) ?? []
        }
        return strings
    }
}
