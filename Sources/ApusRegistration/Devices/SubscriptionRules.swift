internal import ApusCore

/// The rules of an app for subscriptions, by the current configuration.
struct SubscriptionRules: Sendable {
    /// The hosts that subscriptions may lead to.
    var hosts: WebPushHosts
    /// The key that a client subscribes with now, which one that names none is taken to have subscribed with; empty when the configuration
    /// does not name it.
    var serverKey: [UInt8]
}
