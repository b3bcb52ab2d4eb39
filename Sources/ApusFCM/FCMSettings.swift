internal import ApusCore
package import ApusService

/// An app at FCM, with a service account.
package struct FCMSettings: ProviderSettings {
    /// The Firebase project.
    package var projectID: String
    /// The service account's JSON key.
    package var serviceAccountFile: String
    /// Stands in for Google's address: a simulator.
    package var baseURL: String
    /// Stands in for the address of the account's token server; nil: as in the account's file.
    package var tokenURL: String?
    /// The authority that the server's certificate must come from; nil: the system's.
    package var caFile: String?
    /// Connections.
    package var connections: Int
    /// What Google lets a project send in a minute, unless it has granted more: it counts by project, whichever app sends.
    /// Source: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
    package static let projectRatePerMinute = 600_000

    /// Requests per minute of all dispatchers together; nil: as many as can be. Where the configuration says nothing it is all that the
    /// project has, of which apps of one project get equal parts.
    package var ratePerMinute: Int?
    /// Whether the configuration says it.
    package var hasOwnRate: Bool
    /// How long it takes to reach that rate after a long quiet. Google: at least 60 s
    /// (https://firebase.google.com/docs/cloud-messaging/scale-fcm).
    package var rampMilliseconds: Int64

    init(_ reader: SettingsReader, at key: String) {
        self.projectID = reader.requiredString("\(key).project_id", Self.project)
        self.serviceAccountFile = reader.requiredFilePath("\(key).service_account_file")
        self.baseURL = reader.string("\(key).base_url", default: "https://fcm.googleapis.com", .secureURL)
        self.tokenURL = reader.string("\(key).token_url", .secureURL)
        self.caFile = reader.filePath("\(key).ca_file")
        self.connections = reader.integer("\(key).connections", default: 2, in: 1...100)
        self.ratePerMinute = reader.rate(
            "\(key).rate_per_minute",
            default: Self.projectRatePerMinute,
            note: """
                of the app; apps of one project that say none share evenly what the others leave of the \
                \(Self.projectRatePerMinute) that Google lets a project
                """,
        )
        self.hasOwnRate = reader.isGiven("\(key).rate_per_minute")
        let ramp = reader.duration("\(key).ramp", default: .seconds(60), in: .zero ... .seconds(3_600))
        self.rampMilliseconds = Int64(ramp / .milliseconds(1))
    }

    /// Source: https://cloud.google.com/resource-manager/docs/creating-managing-projects
    private static let project = SettingRule("must be 6 to 30 of the characters a-z, 0-9 and -") { text in
        (6...30).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2d }
    }
}

extension AppSettings {
    /// The app at Google; nil: it is not there.
    package var fcm: FCMSettings? {
        get { self[.fcm] as? FCMSettings }
        set { self[.fcm] = newValue }
    }
}
