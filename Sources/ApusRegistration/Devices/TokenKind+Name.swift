internal import ApusCore

extension TokenKind {
    /// The name in JSON.
    var name: String {
        switch self {
        case .device: "device"
        case .installation: "installation"
        case .voip: "voip"
        case .liveActivityStart: "live_activity_start"
        case .liveActivityUpdate: "live_activity_update"
        case .pushToTalk: "push_to_talk"
        case .widgets: "widgets"
        case .controls: "controls"
        }
    }

    /// Returns the kind of that name.
    init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }
}
