/// The options of a demo.
package struct DemoOptions: Hashable, Sendable {
    /// Devices from which on the simulator accepts unseen, so that the dispatcher is what is measured.
    package static let strictDevicesMax = 50_000
    /// The most devices: the audit keeps some 400 bytes of each.
    package static let devicesMax = 5_000_000

    /// Devices to register, iOS and Android half each.
    package var devices = 20_000
    /// Share of dead tokens.
    package var deadShare = 0.02
    /// The seed that tokens, topics and dead tokens are drawn from.
    package var seed: UInt64 = 1
    /// True when the simulator accepts everything unseen; nil for by the number of devices.
    package var fast: Bool?
    /// Single sends whose latency is measured.
    package var latencySends = 1_000
    /// The same, per second.
    package var latencyRate = 200.0
    /// True when everything goes on running afterwards, until it is interrupted.
    package var isKept = false

    /// Creates the usual demo.
    package init() {}

    /// True when the simulator accepts everything unseen.
    package var isFast: Bool { self.fast ?? (self.devices > Self.strictDevicesMax) }
}
