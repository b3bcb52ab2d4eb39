/// Describes one mistake in the configuration: its key, its place, and the rule that it breaks.
public struct SettingsIssue: Error, Hashable, Sendable, CustomStringConvertible {
    /// The key's path, such as `apps.shop.<provider>.team_id`; empty when the mistake concerns the whole file.
    public let key: String
    /// The origin of the value: `apus.yaml:12` or the environment variable; nil when there is none.
    public let place: String?
    /// The broken rule, such as "must be 10 characters A-Z and 0-9".
    public let message: String

    /// Creates an issue.
    public init(key: String, place: String?, message: String) {
        self.key = key
        self.place = place
        self.message = message
    }

    /// The issue in one line. The value itself is not repeated: it may be a secret in the wrong place.
    public var description: String {
        switch (self.key.isEmpty, self.place) {
        case (true, let place?): "\(place): \(self.message)"
        case (true, nil): self.message
        case (false, let place?): "\(self.key) (\(place)): \(self.message)"
        case (false, nil): "\(self.key): \(self.message)"
        }
    }
}

/// Reports all mistakes of a configuration at once.
public struct SettingsError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistakes, sorted by key; at least one.
    public let issues: [SettingsIssue]
    /// The files that the configuration names, as far as it was read: a change of one of them may end a mistake.
    package let files: [String]

    /// The mistakes in one line.
    public var sentence: String { self.issues.map(\.description).joined(separator: "; ") }

    /// Creates an error of the given mistakes.
    ///
    /// - Parameter files: the files that the configuration names.
    public init(issues: [SettingsIssue], files: [String] = []) {
        precondition(!issues.isEmpty)
        self.issues = issues
        self.files = files
    }

    /// The number of mistakes, then one line for each.
    public var description: String {
        let count = self.issues.count == 1 ? "1 mistake" : "\(self.issues.count) mistakes"
        return "the configuration has \(count):" + self.issues.map { "\n  \($0)" }.joined()
    }
}
