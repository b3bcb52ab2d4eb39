/// The options of a demo.
package struct DemoOptions: Hashable, Sendable {
    /// The number of devices from which the simulator accepts without validation, so that the dispatcher is measured.
    static let strictDevicesMax = 50_000
    /// The maximum number of devices: the audit needs some 400 bytes for each.
    package static let devicesMax = 5_000_000

    /// The maximum number of masters: each is two processes.
    package static let mastersMax = 8

    /// The number of devices, half iOS, the others Android and browsers.
    package var devices = 20_000
    /// The share of dead tokens.
    package var deadShare = 0.02
    /// The seed of tokens, topics and dead tokens.
    package var seed: UInt64 = 1
    /// True when the simulator accepts everything without validation; nil to decide by the number of devices.
    package var fast: Bool?
    /// The number of single sends whose latency is measured.
    package var latencySends = 1_000
    /// The number of those sends per second.
    package var latencyRate = 200.0
    /// The number of Redis masters. With several each has a replica, one is killed in the middle of a send, and another one joins.
    package var masters = 1
    /// True when everything keeps running afterwards, until it is interrupted.
    package var isKept = false

    /// Creates the default options.
    package init() {}

    /// True when the simulator accepts everything without validation.
    package var isFast: Bool { self.fast ?? (self.devices > Self.strictDevicesMax) }
}
