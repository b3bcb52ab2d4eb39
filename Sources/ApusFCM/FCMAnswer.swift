internal import ApusCore
internal import ApusProviders

/// Parses an answer of FCM. Parsing never fails: unreadable parts are ignored.
///
/// Errors have the form `{"error":{"code","message","status","details":[…]}}`, with details distinguished by `@type`.
package struct FCMAnswer: Hashable, Sendable {
    /// Apple's answer to FCM.
    package struct APNsError: Hashable, Sendable {
        /// Apple's status.
        package let statusCode: Int
        /// Apple's reason.
        package let reason: String
    }

    /// The HTTP status.
    package let status: Int
    /// The message's name, `projects/<project>/messages/<id>`, when it was accepted.
    package private(set) var name: String?
    /// The error's sentence for people, which also decides one case.
    package private(set) var message = ""
    /// `error.status`: Google's general status, such as NOT_FOUND.
    package private(set) var generalStatus: String?
    /// FcmError's code, also an unknown one.
    package private(set) var errorCode: String?
    /// The detail ApnsError.
    package private(set) var apnsError: APNsError?
    /// The paths of the invalid fields in the detail BadRequest; nil without such a detail.
    package private(set) var badFields: [String]?
    /// The words of the descriptions of exceeded quotas in the detail QuotaFailure, and the kinds of their subjects, in lower case. The names
    /// of the subjects are not read: that of a project may hold any word.
    package private(set) var exceededQuotaWords: Set<Substring> = []

    /// The milliseconds to wait in the detail RetryInfo; nil without such a detail.
    package private(set) var retryDelayMilliseconds: Int64?

    /// The maximum bytes of a body that are read.
    package static let bodyBytesMax = 64 * 1_024

    /// Parses an answer.
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
                let description = violation["description"]?.string?.lowercased() ?? ""
                // The name of a project, which may stand here too, is one word.
                self.exceededQuotaWords.formUnion(description.split { !$0.isLetter && !$0.isNumber && $0 != "-" })
                // A subject is "<kind>:<name>".
                let subject = violation["subject"]?.string?.lowercased() ?? ""
                self.exceededQuotaWords.insert(subject.prefix { $0 != ":" })
            }
        case "type.googleapis.com/google.rpc.RetryInfo":
            self.retryDelayMilliseconds = detail["retryDelay"]?.string.flatMap { GoogleDuration.milliseconds($0) }
        default: break
        }
    }

    /// The most specific reason, for receipts.
    package var word: String? { self.apnsError?.reason ?? self.errorCode ?? self.generalStatus }
}
