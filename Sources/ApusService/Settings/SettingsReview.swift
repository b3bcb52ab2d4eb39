package import ApusCore

/// Tells how far the running parts of a service have taken over changed settings.
package struct SettingsReview: Sendable {
    /// The reasons why former credentials stay in use.
    package var refusals: [String] = []
    /// The changes that running parts cannot take over.
    package var renewals: [String] = []
    /// The apps of which the parts use all that is configured, where they do not use all of the settings.
    package var appsInUse: Set<AppID> = []
    /// The time after which another review may find otherwise, because a provider could not be asked or has refused; nil when it would find
    /// the same.
    package var retryInterval: Duration?

    /// Creates the review of settings that were taken over as a whole.
    package init() {}

    /// True when the parts use all of the settings.
    var isComplete: Bool { self.refusals.isEmpty && self.renewals.isEmpty }

    /// The refusals in one text; nil when there are none.
    var refusal: String? { self.refusals.isEmpty ? nil : self.refusals.joined(separator: "; ") }

    /// Returns true when the settings are to be reviewed again.
    ///
    /// - Parameter age: the time since this review.
    func isDue(atAge age: Duration) -> Bool { self.retryInterval.map { age >= $0 } ?? false }
}
