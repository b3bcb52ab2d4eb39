internal import ApusCore

extension WebPushCredentialSource {
    /// Says what to correct when a push service refuses the key.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers
    /// and https://mozilla-services.github.io/autopush-rs/errors.html
    package func cure(of word: String) -> String? {
        let resume = "; then apus resume --route, because push services cannot be asked without a subscription"
        switch word {
        case "BadVapidPublicKey", "VapidPkHashMismatch":
            return """
                Compare \(self.settings.keyFile) with the key that browsers have subscribed with; a former one belongs among \
                older_key_files\(resume)
                """
        // These say that the token is wrong, or no reason at all.
        default:
            return """
                Correct this machine's clock if it is wrong, and compare subject \(self.settings.subject) and \
                \(self.settings.keyFile) with what browsers have subscribed with\(resume)
                """
        }
    }
}
