internal import ApusStreams

/// How fast a route may go by its configuration.
struct RoutePace: Sendable {
    /// Whom to ask.
    var limiter: Limiter
    /// Of the whole fleet; nil: no limit.
    var ratePerSecond: Double?
}
