public import ApusCore

/// What an app reports about a notification that reached it.
public struct ClientEvent: Hashable, Sendable {
    /// What happened.
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// It arrived.
        case received = 1
        /// A person opened it.
        case opened = 2
        /// A person swept it away.
        case dismissed = 3
        /// A person chose an action.
        case action = 4
    }

    /// The app's; the same id counts once.
    public var id: String
    /// The app.
    public var app: String
    /// The device.
    public var device: String
    /// The send.
    public var send: String
    /// What happened.
    public var kind: Kind
    /// The action.
    public var action: String = ""
    /// When.
    public var at: UnixMilliseconds
    /// Through whom it came; nil for unknown.
    public var provider: Provider?

    /// Creates an event.
    public init(id: String, app: String, device: String, send: String, kind: Kind, at: UnixMilliseconds) {
        self.id = id
        self.app = app
        self.device = device
        self.send = send
        self.kind = kind
        self.at = at
    }
}
