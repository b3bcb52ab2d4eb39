internal import ApusCore
internal import ApusProviders
internal import ApusService

/// What of a configuration is allowed, and probably not meant: told once, at the start. Pure.
enum SettingsAdvice {
    /// All there is to say, in a fixed order.
    static func advice(on apps: [AppID: AppSettings]) -> [String] {
        let sorted = apps.sorted { $0.key.text < $1.key.text }
        let suffixes = sorted.compactMap { app, settings in
            settings.apns.flatMap { Self.advice(onBundleID: $0.topic, of: app) }
        }
        return suffixes + Self.advice(on: ProjectShare.all(in: apps))
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

    /// Projects of several apps whose own rates together are above what Google lets one: apps without a rate stay within it.
    static func advice(on shares: [ProjectShare]) -> [String] {
        Dictionary(grouping: shares, by: \.project).sorted { $0.key < $1.key }.compactMap { project, shares in
            let own = ProjectShare.ownPerMinute(shares)
            let even = shares.count { $0.rate == .even } * ProjectShare.leastPerMinute(of: shares.count)
            let isAbove = own.addingReportingOverflow(even)
            let isOpen = shares.contains { $0.rate == .unlimited }
            guard shares.count > 1,
                isOpen || isAbove.overflow || isAbove.partialValue > FCMSettings.projectRatePerMinute
            else { return nil }
            let names = shares.map(\.app.text).sorted().joined(separator: ", ")
            return """
                the apps \(names) share the project \(project), of which Google counts messages: together their \
                fcm.rate_per_minute is above its \(FCMSettings.projectRatePerMinute) a minute; give each a part of that, or of \
                what Google has granted, or leave it out for an even part
                """
        }
    }
}
