internal import ApusCore
internal import ApusService

/// Computes an app's share of the rate of its Firebase project. Pure.
///
/// Google counts a project's messages, whichever app sends them, but here every app has a limiter of its own. So apps
/// of one project without a configured rate share evenly what the others' rates leave, and all of them together stay
/// within what Google accepts from the project in any minute. Source:
/// https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
struct ProjectShare: Hashable, Sendable {
    /// The configured rate of an app.
    enum Rate: Hashable, Sendable {
        /// No rate is configured: the app gets an even share of the project's.
        case even
        /// A number of messages per minute is configured.
        case own(perMinute: Int)
        /// No limit is configured: Google's 429 limits the project.
        case unlimited
    }

    let app: AppID
    let project: String
    let rate: Rate

    /// Returns the shares of all apps with FCM, in a fixed order.
    static func all(in apps: [AppID: AppSettings]) -> [ProjectShare] {
        apps.sorted { $0.key.text < $1.key.text }.compactMap { app, settings in
            guard let fcm = settings.fcm else { return nil }
            let own = fcm.ratePerMinute.map { Rate.own(perMinute: $0) } ?? .unlimited
            return ProjectShare(app: app, project: fcm.projectID, rate: fcm.hasOwnRate ? own : .even)
        }
    }

    /// Returns the maximum messages per minute of each app; an app without a limit is missing.
    ///
    /// Where the others leave less than a tenth of an even share, Google must have granted the project more than its
    /// default: then the app gets that tenth, and ``advice(on:)`` warns.
    static func perMinute(_ shares: [ProjectShare]) -> [AppID: Int] {
        var result: [AppID: Int] = [:]
        for (_, members) in Dictionary(grouping: shares, by: \.project) {
            let even = members.filter { $0.rate == .even }
            let left = FCMSettings.projectRatePerMinute - Self.ownPerMinute(members)
            let part = max(Self.leastPerMinute(of: members.count), left / max(1, even.count))
            for member in members {
                switch member.rate {
                case .even: result[member.app] = part
                case .own(let perMinute): result[member.app] = perMinute
                case .unlimited: break
                }
            }
        }
        return result
    }

    /// Returns the minimum share of an app in a project of so many apps.
    static func leastPerMinute(of members: Int) -> Int { max(1, FCMSettings.projectRatePerMinute / (10 * members)) }

    /// Returns the sum of the configured rates, limited to the greatest integer.
    static func ownPerMinute(_ shares: [ProjectShare]) -> Int {
        shares.reduce(0) { sum, share in
            guard case .own(let perMinute) = share.rate else { return sum }
            let (result, overflow) = sum.addingReportingOverflow(perMinute)
            return overflow ? .max : result
        }
    }

    /// Warns about projects of several apps whose own rates together exceed Google's limit: apps without a rate stay within it.
    static func advice(on shares: [ProjectShare]) -> [String] {
        Dictionary(grouping: shares, by: \.project).sorted { $0.key < $1.key }.compactMap { project, shares in
            let own = Self.ownPerMinute(shares)
            let even = shares.count { $0.rate == .even } * Self.leastPerMinute(of: shares.count)
            let isAbove = own.addingReportingOverflow(even)
            let isOpen = shares.contains { $0.rate == .unlimited }
            guard shares.count > 1,
                isOpen || isAbove.overflow || isAbove.partialValue > FCMSettings.projectRatePerMinute
            else { return nil }
            let names = shares.map(\.app.text).sorted().joined(separator: ", ")
            return """
                the apps \(names) share the project \(project), whose messages Google counts together: the sum of \
                their fcm.rate_per_minute is above its \(FCMSettings.projectRatePerMinute) a minute; set a part of \
                that for each, or of what Google has granted, or omit it for an even share
                """
        }
    }
}
