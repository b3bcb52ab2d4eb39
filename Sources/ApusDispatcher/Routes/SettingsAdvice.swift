internal import ApusCore
internal import ApusProviders
internal import ApusService

/// What of a configuration is allowed, and probably not meant: told once, at the start. Pure.
enum SettingsAdvice {
    /// What Google lets a project send in a minute, unless it has granted more.
    /// Source: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
    static let projectPerMinute = 600_000

    /// All there is to say, in a fixed order.
    static func advice(on apps: [AppID: AppSettings]) -> [String] {
        let sorted = apps.sorted { $0.key.text < $1.key.text }
        let suffixes = sorted.compactMap { app, settings in
            settings.apns.flatMap { Self.advice(onBundleID: $0.topic, of: app) }
        }
        let shares = sorted.compactMap { app, settings in
            settings.fcm.map { Share(app: app, project: $0.projectID, perMinute: $0.ratePerMinute) }
        }
        return suffixes + Self.advice(on: shares)
    }

    /// A bundle id to which Apple's suffix has been added already; nil: it ends as none.
    static func advice(onBundleID id: String, of app: AppID) -> String? {
        let suffix = APNsPushType.allCases.map(\.topicSuffix).filter { !$0.isEmpty && id.hasSuffix($0) }
            .max { $0.utf8.count < $1.utf8.count }
        guard let suffix else { return nil }
        return """
            apps.\(app).apns.topic is \(id), which is taken as the bundle id as it is: if the app is called \
            \(id.dropLast(suffix.count)), leave out \(suffix), which is added to what needs it
            """
    }

    /// An app's part of what its project may send.
    struct Share: Hashable, Sendable {
        let app: AppID
        let project: String
        /// nil: as many as can be.
        let perMinute: Int?
    }

    /// Projects of several apps that together are let more than Google lets one: it counts by project, rates here are the apps' own.
    static func advice(on shares: [Share]) -> [String] {
        Dictionary(grouping: shares, by: \.project).sorted { $0.key < $1.key }.compactMap { project, shares in
            let rates = shares.compactMap(\.perMinute)
            let sum = rates.reduce(0) { $0.addingReportingOverflow($1).overflow ? .max : $0 + $1 }
            guard shares.count > 1, rates.count < shares.count || sum > Self.projectPerMinute else { return nil }
            let names = shares.map(\.app.text).sorted().joined(separator: ", ")
            return """
                the apps \(names) share the project \(project), of which Google counts messages: give each a part of its \
                \(Self.projectPerMinute) a minute by fcm.rate_per_minute, or of what Google has granted
                """
        }
    }
}
