internal import ApusDispatcher
internal import ApusMetrics

/// Short names for the catalogues, and the queries that several dashboards or rules use.
enum Queries {
    static let dispatcher = Catalogues.dispatcher
    static let registration = Catalogues.registration
    static let feedback = Catalogues.feedback
    static let every = Catalogues.every

    /// The outcomes that count as failures of the gateway. Dead tokens and mistakes of publishers are not included.
    static let failures = Matcher.isOne("outcome", of: ["failed", "expired"])

    /// The age in seconds of the oldest entry, given the time it was written. 0 if there is no entry.
    static func age(_ timestamp: Family, _ matchers: Matcher..., by labels: [String] = []) -> String {
        let series = timestamp.shown(matchers)
        let grouping = labels.isEmpty ? "" : " by (\(labels.joined(separator: ", "))) "
        return "max\(grouping)((time() - \(series)) * (\(series) > bool 0))"
    }

    /// The seconds until the first credential that is in use expires.
    static func validity(_ matchers: Matcher..., by labels: [String]) -> String {
        "min by (\(labels.joined(separator: ", "))) (\(self.dispatcher[\.credentialExpiry].shown(matchers)) - time())"
    }

    /// The quotient of two sums.
    static func quotient(_ dividend: String, _ divisor: String) -> String { "\(dividend) / \(divisor)" }

    /// The sum by service, for families that have no label for the service.
    static func byService(_ series: String) -> String {
        let build = self.every.buildInformation.shown()
        return "sum by (service) (\(series) * on (job, instance) group_left (service) \(build))"
    }
}
