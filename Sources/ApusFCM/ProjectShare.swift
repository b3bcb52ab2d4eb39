internal import ApusCore
internal import ApusService

/// An app's part of what its Firebase project may send. Pure.
///
/// Google counts a project's messages, whichever app sends them; here every app has a limiter of its own. So apps of one project that
/// are given no rate share evenly what the others' rates leave, and all of them together stay within what Google lets the project
/// send in any minute. Source: https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
struct ProjectShare: Hashable, Sendable {
    /// What the configuration says of an app's rate.
    enum Rate: Hashable, Sendable {
        /// Nothing: a part of the project's.
        case even
        /// So many a minute.
        case own(perMinute: Int)
        /// As many as can be: what the project may send is left to Google's 429.
        case unlimited
    }

    let app: AppID
    let project: String
    let rate: Rate

    /// Of every app with FCM, in a fixed order.
    static func all(in apps: [AppID: AppSettings]) -> [ProjectShare] {
        apps.sorted { $0.key.text < $1.key.text }.compactMap { app, settings in
            guard let fcm = settings.fcm else { return nil }
            let own = fcm.ratePerMinute.map { Rate.own(perMinute: $0) } ?? .unlimited
            return ProjectShare(app: app, project: fcm.projectID, rate: fcm.hasOwnRate ? own : .even)
        }
    }

    /// What each app may send in a minute; none: as many as can be.
    ///
    /// Where the others leave less than a tenth of an even part, Google must have granted more than it says here: then that tenth is
    /// taken, which ``advice(on:)`` tells.
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

    /// What an app of a project of so many gets at least.
    static func leastPerMinute(of members: Int) -> Int { max(1, FCMSettings.projectRatePerMinute / (10 * members)) }

    /// What those with a rate of their own may send together, not above the greatest number that can be told.
    static func ownPerMinute(_ shares: [ProjectShare]) -> Int {
        shares.reduce(0) { sum, share in
            guard case .own(let perMinute) = share.rate else { return sum }
            let (result, overflow) = sum.addingReportingOverflow(perMinute)
            return overflow ? .max : result
        }
    }

    /// Projects of several apps whose own rates together are above what Google lets one: apps without a rate stay within it.
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
                the apps \(names) share the project \(project), of which Google counts messages: together their \
                fcm.rate_per_minute is above its \(FCMSettings.projectRatePerMinute) a minute; give each a part of that, or of \
                what Google has granted, or leave it out for an even part
                """
        }
    }
}
