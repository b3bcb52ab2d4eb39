/// One mistake in the configuration: where, and which rule it breaks.
public struct SettingsIssue: Hashable, Sendable, CustomStringConvertible {
    /// The key's path, `apps.shop.<provider>.team_id`; empty when the whole file is meant.
    public let key: String
    /// Where the value came from: `apus.yaml:12` or the environment variable; nil when there is none.
    public let place: String?
    /// The rule: "must be 10 characters A-Z and 0-9".
    public let message: String

    /// A mistake.
    public init(key: String, place: String?, message: String) {
        self.key = key
        self.place = place
        self.message = message
    }

    /// One line. The value itself is not repeated: it may be a secret in the wrong place.
    public var description: String {
        switch (self.key.isEmpty, self.place) {
        case (true, let place?): "\(place): \(self.message)"
        case (true, nil): self.message
        case (false, let place?): "\(self.key) (\(place)): \(self.message)"
        case (false, nil): "\(self.key): \(self.message)"
        }
    }
}

/// All mistakes of a configuration at once.
public struct SettingsError: Error, Hashable, Sendable, CustomStringConvertible {
    /// At least one, in the order of keys.
    public let issues: [SettingsIssue]

    /// A refusal.
    public init(issues: [SettingsIssue]) {
        precondition(!issues.isEmpty)
        self.issues = issues
    }

    /// A line for each mistake.
    public var description: String {
        let count = self.issues.count == 1 ? "1 mistake" : "\(self.issues.count) mistakes"
        return "the configuration has \(count):" + self.issues.map { "\n  \($0)" }.joined()
    }
}
