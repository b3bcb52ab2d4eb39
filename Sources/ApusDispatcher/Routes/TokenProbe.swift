internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// A message that FCM only checks: what it says of that, it says of the token.
struct TokenProbe: Sendable {
    private let token: PreparedMessage
    private let installation: PreparedMessage

    /// The probe of a project, the same for all its sends.
    init(project: String, authority: String) throws {
        // It has neither words nor an expiry: the time does not show in it.
        let now = UnixMilliseconds(0)
        let context = RenderContext(send: try SendID("apus-token-probe"), publishedAt: now, now: now)
        func message(_ target: FCMTarget) throws -> PreparedMessage {
            let rendered = try FCMRenderer.render(
                CredentialProbe.notification,
                target: target,
                context: context,
                validateOnly: true,
            )
            return try .fcm(rendered.base, project: project, authority: authority)
        }
        self.token = try message(.token)
        self.installation = try message(.installation)
    }

    /// What a recipient's token is tried with.
    func message(for row: RecipientTable.Row) -> PreparedMessage { row.isInstallation ? self.installation : self.token }
}
