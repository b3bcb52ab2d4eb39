internal import ApusCore
internal import ApusProviders

/// An answer of FCM, taken apart. Whatever the body is, reading it never fails: what cannot be read counts as not said.
///
/// Errors come as `{"error":{"code","message","status","details":[…]}}`, with details told apart by `@type`.
package struct FCMAnswer: Hashable, Sendable {
    /// What Apple said to FCM.
    package struct APNsError: Hashable, Sendable {
        /// Apple's status.
        package let statusCode: Int
        /// Apple's word.
        package let reason: String
    }

    /// The HTTP status.
    package let status: Int
    /// The message's name, `projects/<project>/messages/<id>`, when it was accepted.
    package private(set) var name: String?
    /// A sentence for people, and for one decision.
    package private(set) var message = ""
    /// `error.status`: Google's general word, NOT_FOUND and the like.
    package private(set) var generalStatus: String?
    /// FcmError's word, unknown ones too.
    package private(set) var errorCode: String?
    /// ApnsError.
    package private(set) var apnsError: APNsError?
    /// BadRequest: the paths of the fields that are wrong; nil without such a detail.
    package private(set) var badFields: [String]?
    /// QuotaFailure: subjects and descriptions of what was exceeded, in lower case.
    package private(set) var exceededQuotas: [String] = []

    /// Bytes of a body that are read.
    package static let bodyBytesMax = 64 * 1_024

    /// Takes an answer apart.
    package init(status: Int, body: [UInt8]) {
        self.status = status
        guard let json = try? JSONValue(parsing: body, bytesMax: Self.bodyBytesMax) else { return }
        if status == 200 {
            self.name = json["name"]?.string.map { ProviderText.cleaned($0) }
            return
        }
        guard let error = json["error"] else { return }
        self.message = error["message"]?.string.map { ProviderText.cleaned($0) } ?? ""
        self.generalStatus = error["status"]?.string.map { ProviderText.cleaned($0) }
        for detail in error["details"]?.array ?? [] { self.read(detail) }
    }

    private mutating func read(_ detail: JSONValue) {
        switch detail["@type"]?.string {
        case "type.googleapis.com/google.firebase.fcm.v1.FcmError":
            self.errorCode = self.errorCode ?? detail["errorCode"]?.string.map { ProviderText.cleaned($0) }
        case "type.googleapis.com/google.firebase.fcm.v1.ApnsError":
            guard let reason = detail["reason"]?.string else { return }
            self.apnsError = APNsError(
                statusCode: detail["statusCode"]?.int64.flatMap { Int(exactly: $0) } ?? 0,
                reason: ProviderText.cleaned(reason),
            )
        case "type.googleapis.com/google.rpc.BadRequest":
            let fields = detail["fieldViolations"]?.array?.compactMap { $0["field"]?.string } ?? []
            self.badFields = (self.badFields ?? []) + fields
        case "type.googleapis.com/google.rpc.QuotaFailure":
            for violation in detail["violations"]?.array ?? [] {
                self.exceededQuotas += [violation["subject"], violation["description"]].compactMap {
                    $0?.string?.lowercased()
                }
            }
        default: break
        }
    }

    /// The most telling word, for receipts.
    package var word: String? { self.apnsError?.reason ?? self.errorCode ?? self.generalStatus }
}
