public import ApusCore

/// Reports what happened to a notification on a device, as the app says.
public struct ClientEvent: Hashable, Sendable {
    /// The kinds of events.
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// The notification arrived.
        case received = 1
        /// A person opened the notification.
        case opened = 2
        /// A person dismissed the notification.
        case dismissed = 3
        /// A person chose an action.
        case action = 4
    }

    /// The event's id, chosen by the app; the same id counts once.
    public var id: String
    /// The app.
    public var app: String
    /// The device.
    public var device: String
    /// The send.
    public var send: String
    /// The kind of event.
    public var kind: Kind
    /// The chosen action.
    public var action: String = ""
    /// The time of the event.
    public var at: UnixMilliseconds
    /// The provider that delivered the notification; nil when unknown.
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
