internal import ApusCore

/// Google's error codes for messages, each with its status.
///
/// Source: https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
package enum FCMErrorCode: String, CaseIterable, Sendable {
    case invalidArgument = "INVALID_ARGUMENT"
    case unregistered = "UNREGISTERED"
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    case quotaExceeded = "QUOTA_EXCEEDED"
    case unavailable = "UNAVAILABLE"
    case internalError = "INTERNAL"
    case thirdPartyAuthError = "THIRD_PARTY_AUTH_ERROR"
    /// The older name of ``thirdPartyAuthError``.
    case apnsAuthError = "APNS_AUTH_ERROR"
    case unspecified = "UNSPECIFIED_ERROR"

    /// The HTTP status.
    package var status: Int {
        switch self {
        case .invalidArgument, .unspecified: 400
        case .thirdPartyAuthError, .apnsAuthError: 401
        case .senderIDMismatch: 403
        case .unregistered: 404
        case .quotaExceeded: 429
        case .internalError: 500
        case .unavailable: 503
        }
    }
}

/// A violation of the schema by one field.
struct FCMViolation: Error {
    /// The path of the field, such as "message.data[0].value".
    let field: String
    let description: String
}

/// The refusal of a request in the form of Google's APIs: `{"error": {"code", "message", "status", "details"}}`.
struct FCMRefusal: Error {
    let status: Int
    let message: String
    /// The `errorCode` of FcmError, if the answer has such a detail.
    var code: FCMErrorCode?
    /// The violations of BadRequest.
    var violations: [FCMViolation] = []
    /// The status and reason of ApnsError.
    var apns: (status: Int, reason: String)?
    /// The description of QuotaFailure.
    var quota: String?

    init(
        _ status: Int,
        _ message: String,
        code: FCMErrorCode? = nil,
        violations: [FCMViolation] = [],
        apns: (status: Int, reason: String)? = nil,
        quota: String? = nil,
    ) {
        self.status = status
        self.message = message
        self.code = code
        self.violations = violations
        self.apns = apns
        self.quota = quota
    }

    init(_ code: FCMErrorCode, _ message: String) { self.init(code.status, message, code: code) }

    private static let types = "type.googleapis.com/"

    /// The name of the status (https://cloud.google.com/apis/design/errors).
    private var statusName: String {
        switch self.status {
        case 400: "INVALID_ARGUMENT"
        case 401: "UNAUTHENTICATED"
        case 403: "PERMISSION_DENIED"
        case 404: "NOT_FOUND"
        case 409: "ALREADY_EXISTS"
        case 429: "RESOURCE_EXHAUSTED"
        case 503: "UNAVAILABLE"
        default: "INTERNAL"
        }
    }

    private var details: [JSONValue] {
        var details: [JSONValue] = []
        if let code {
            details.append([
                "@type": .string(Self.types + "google.firebase.fcm.v1.FcmError"),
                "errorCode": .string(code.rawValue),
            ])
        }
        if let apns {
            details.append([
                "@type": .string(Self.types + "google.firebase.fcm.v1.ApnsError"),
                "statusCode": .integer(apns.status), "reason": .string(apns.reason),
            ])
        }
        if !self.violations.isEmpty {
            let violations = self.violations.map { violation in
                ["field": .string(violation.field), "description": .string(violation.description)] as JSONValue
            }
            details.append([
                "@type": .string(Self.types + "google.rpc.BadRequest"), "fieldViolations": .array(violations),
            ])
        }
        if let quota {
            details.append([
                "@type": .string(Self.types + "google.rpc.QuotaFailure"),
                "violations": [["subject": "project:smart-device-topics", "description": .string(quota)]],
            ])
        }
        return details
    }

    /// The refusal as an answer.
    var answer: ProviderAnswer {
        var error: JSONObject = [
            "code": .integer(self.status), "message": .string(self.message), "status": .string(self.statusName),
        ]
        let details = self.details
        if !details.isEmpty { error["details"] = .array(details) }
        return ProviderAnswer(
            status: self.status,
            json: ["error": .object(error)],
            contentType: "application/json; charset=UTF-8",
        )
    }
}
