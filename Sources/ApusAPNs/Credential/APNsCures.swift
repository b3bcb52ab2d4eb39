internal import ApusCore
internal import ApusProviders

extension APNsCredentialSource {
    /// Says what to correct when Apple refuses the credential.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
    package func cure(of word: String) -> String? {
        let clock = "Correct this machine's clock: a token's time must be within an hour of Apple's"
        if word.contains(CredentialGrant.wrongClock) { return clock }
        guard let reason = APNsReason(rawValue: word) else { return nil }
        let topic = self.settings.topic
        let (other, name) = self.environment == .production ? ("sandbox", "production") : ("production", "sandbox")
        switch (reason, self.settings.credential(for: self.environment)) {
        case (.invalidProviderToken, .key(let teamID, let keyID, let file)):
            return """
                Compare team_id \(teamID) and key_id \(keyID) with Apple's console, and \(file) with the file of that key; a revoked key \
                is refused, too
                """
        case (.expiredProviderToken, _): return clock
        case (.topicDisallowed, _), (.badTopic, _), (.missingTopic, _):
            return
                "Compare topic \(topic) with the app's bundle id, and check that the credential is of the team that owns the app"
        case (.deviceTokenNotForTopic, _): return "Compare topic \(topic) with the app's bundle id"
        case (.badEnvironmentKeyIDInToken, .key(_, let keyID, _)), (.badEnvironmentKeyInToken, .key(_, let keyID, _)):
            return "Key \(keyID) is for \(other) only: name one for \(name), or for both"
        case (.badCertificateEnvironment, _): return "The certificate is for \(other) only: name one for \(name)"
        case (.badCertificate, .certificate(let file, _, _)):
            return "Replace \(file): the certificate has expired, was revoked or is no certificate for push"
        case (.forbidden, _):
            return "Check in Apple's console that the key or certificate is for push, and was not revoked"
        default: return nil
        }
    }
}
