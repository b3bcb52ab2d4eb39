internal import ApusCore
package import ApusService

/// Holds an app's settings at FCM, with a service account.
package struct FCMSettings: ProviderSettings {
    /// The id of the Firebase project.
    package var projectID: String
    /// The path of the service account's JSON key.
    package var serviceAccountFile: String
    /// The address to use instead of Google's, such as a simulator's.
    package var baseURL: String
    /// The address to use instead of the account's token endpoint; nil for the one in the account's file.
    package var tokenURL: String?
    /// The path of the CA certificates that the server's certificate is verified with; nil for the system's.
    package var caFile: String?
    /// The number of connections.
    package var connections: Int
    /// The messages that Google accepts from a project in a minute, unless it has granted more: it counts by project, whichever app sends.
    /// Source: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
    package static let projectRatePerMinute = 600_000

    /// The maximum requests per minute of all dispatchers together; nil for no limit. The default is the whole rate of
    /// the project, which apps of one project share evenly.
    package var ratePerMinute: Int?
    /// True when the configuration sets the rate.
    package var hasOwnRate: Bool
    /// The time in which the rate rises to its limit after a long pause. Google: at least 60 s
    /// (https://firebase.google.com/docs/cloud-messaging/scale-fcm).
    package var rampMilliseconds: Int64

    init(_ reader: SettingsReader, at key: String) {
        self.projectID = reader.requiredString("\(key).project_id", Self.project)
        self.serviceAccountFile = reader.requiredFilePath("\(key).service_account_file")
        self.baseURL = reader.string("\(key).base_url", default: "https://fcm.googleapis.com", .secureURL)
        self.tokenURL = reader.string("\(key).token_url", .secureURL)
        self.caFile = reader.filePath("\(key).ca_file")
        self.connections = reader.integer("\(key).connections", default: 2, in: 1...100)
        self.ratePerMinute = reader.limit(
            "\(key).rate_per_minute",
            default: Self.projectRatePerMinute,
            note: """
                of the app; apps of one project without a rate share evenly what the others leave of the \
                \(Self.projectRatePerMinute) that Google grants a project
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
    /// The app's settings at FCM; nil when it has none.
    package var fcm: FCMSettings? {
        get { self[.fcm] as? FCMSettings }
        set { self[.fcm] = newValue }
    }
}

extension FCMSettings {
    /// The meanings of the settings by their names, as the article Configuration has them.
    static let descriptions: [String: String] = [
        "project_id": "the Firebase project",
        "service_account_file": "the service account's JSON key",
        "connections": "bulk connections of each event loop, at most; one for express stands beside them",
        "rate_per_minute":
            "requests of all dispatchers together; apps of one project that name none share what the others leave "
            + "of 600,000",
        "ramp": "how long the rate takes to its full height after a long quiet",
        "base_url": "stands in for Google's address: a simulator",
        "token_url": "stands in for the token server of the account's file",
        "ca_file": "the authority of the server's certificate; else the system's",
    ]
}
