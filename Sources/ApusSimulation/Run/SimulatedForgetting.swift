/// The removal of a user of an app with all devices, which a backend asks for.
final class SimulatedForgetting: @unchecked Sendable {
    let app: String
    let user: String
    /// True when it is asked for over HTTP; otherwise through the register stream, where it is older than all that is asked for over HTTP.
    let usesHTTP: Bool
    /// The time after which it removes no device any more.
    var end: Int64 = .max

    init(app: String, user: String, usesHTTP: Bool) {
        self.app = app
        self.user = user
        self.usesHTTP = usesHTTP
    }

    /// Returns true when it may remove a device that is in a state at a time.
    func mayRemove(_ device: SimulatedDevice, _ state: DeviceState?, at time: Int64) -> Bool {
        device.app == self.app && device.usesHTTP == self.usesHTTP && state?.user == self.user && time < self.end
    }
}
