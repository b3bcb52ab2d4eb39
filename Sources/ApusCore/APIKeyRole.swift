/// What the holder of an app's API key may do.
public enum APIKeyRole: String, CaseIterable, Hashable, Sendable {
    /// Register and change devices.
    case register
    /// Send.
    case publish
    /// All of it.
    case admin

    /// Whether it may register and change devices.
    public var mayRegister: Bool { self != .publish }
    /// Whether it may send.
    public var mayPublish: Bool { self != .register }
}
