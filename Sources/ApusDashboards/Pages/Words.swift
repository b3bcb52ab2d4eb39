internal import ApusDispatcher
internal import ApusMetrics

/// The catalogues by short names, and the questions that several pages ask.
enum Words {
    static let dispatcher = Catalogues.dispatcher
    static let registration = Catalogues.registration
    static let feedback = Catalogues.feedback
    static let every = Catalogues.every

    /// Outcomes that the gateway has to answer for: dead tokens and mistakes of publishers are not among them.
    static let failures = Matcher.isOne("outcome", of: ["failed", "expired"])

    /// Seconds since the oldest of something was written; 0 when there is none.
    static func age(_ timestamp: Family, _ matchers: Matcher..., by labels: [String] = []) -> String {
        let series = timestamp.shown(matchers)
        let grouping = labels.isEmpty ? "" : " by (\(labels.joined(separator: ", "))) "
        return "max\(grouping)((time() - \(series)) * (\(series) > bool 0))"
    }

    /// Seconds until the first of the credentials in use expires.
    static func validity(_ matchers: Matcher..., by labels: [String]) -> String {
        "min by (\(labels.joined(separator: ", "))) (\(self.dispatcher[\.credentialExpiry].shown(matchers)) - time())"
    }

    /// One quotient of two sums.
    static func quotient(_ dividend: String, _ divisor: String) -> String { "\(dividend) / \(divisor)" }

    /// A sum by service: of families that do not say themselves whose they are.
    static func byService(_ series: String) -> String {
        let build = self.every.buildInformation.shown()
        return "sum by (service) (\(series) * on (job, instance) group_left (service) \(build))"
    }
}
