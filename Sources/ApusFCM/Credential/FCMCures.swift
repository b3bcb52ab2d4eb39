internal import ApusCore
internal import ApusProviders

extension FCMCredentialSource {
    /// Says what to correct when Google refuses the credential.
    ///
    /// Source: https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode and
    /// https://developers.google.com/identity/protocols/oauth2/service-account
    package func cure(of word: String) -> String? {
        if word.contains(CredentialGrant.wrongClock) {
            return "Correct this machine's clock: a request for a token must be from the last hour"
        }
        let account = (try? ServiceAccount(json: self.account))?.clientEmail ?? "the account"
        switch OAuthAnswer.Refusal(named: word) {
        case .signature:
            return "Create a new key of \(account) in the console: this one was revoked, or is of another account"
        case .accountNotFound: return "Create an account in the console: \(account) was deleted"
        case .audience: return "Leave token_url out, or name the token endpoint of the account's file"
        case .scope, .other: return "Create a new key in the console, and check that the account is enabled"
        case nil: break
        }
        let project = self.settings.projectID
        if word.hasPrefix("NOT_FOUND") {
            return "Compare project_id \(project) with the console: there is no such project"
        }
        if word.hasPrefix("PERMISSION_DENIED") || word.hasPrefix("status 403") {
            return """
                Compare project_id \(project) with the console, enable the Firebase Cloud Messaging API there, and grant \(account) the \
                role Firebase Cloud Messaging API Admin
                """
        }
        if word.hasPrefix("SENDER_ID_MISMATCH") {
            return "Compare project_id \(project) with the project that the app is built with"
        }
        return nil
    }

    /// Says that the account belongs to another project than the configured one, which is allowed, and rarely meant.
    package var doubt: String? {
        guard let account = try? ServiceAccount(json: self.account), account.projectID != self.settings.projectID else {
            return nil
        }
        return """
            \(self.settings.serviceAccountFile) is an account of the project \(account.projectID), and project_id is \
            \(self.settings.projectID): unless that project has granted it the role Firebase Cloud Messaging API Admin, one of them is wrong
            """
    }
}

extension OAuthAnswer.Refusal {
    /// Finds the refusal that an alarm of a credential names; nil when it names none.
    init?(named text: String) {
        let refusals: [Self] = [.signature, .accountNotFound, .audience, .scope, .other]
        guard let refusal = refusals.first(where: { text.hasPrefix(FCMCredential.refusal($0)) }) else { return nil }
        self = refusal
    }
}
