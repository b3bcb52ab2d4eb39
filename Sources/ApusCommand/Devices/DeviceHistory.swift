package import ApusCore
package import ApusStore

/// Shows the history of a device: its events and its record.
package struct DeviceHistory: Sendable {
    /// A sentence about events that are not recorded.
    package static let omissions =
        "not recorded: accepted notifications of sends to an audience, or to more than \(Limits.directRecipientsMax) names"

    private let id: String
    private let device: StoredDevice?
    private let events: [HistoryEvent]

    /// Creates a history.
    ///
    /// - Parameters:
    ///   - device: the device as it is stored now; nil when it is gone.
    ///   - events: the events, oldest first.
    package init(id: String, device: StoredDevice?, events: [HistoryEvent]) {
        self.id = id
        self.device = device
        self.events = events
    }

    /// The events in the order of their times, with the last registration from the record.
    package var timeline: [HistoryEvent] {
        var events = self.events
        if let device {
            let registered = HistoryEvent(.registered, at: device.registeredAt, provider: device.realm.provider)
            // A device with a history has the same event in it, apart from the duration of the answer.
            let isRecorded = events.contains { event in
                [.registered, .tokenReplaced].contains(event.kind)
                    && abs(event.at.milliseconds(since: registered.at)) < 2_000
            }
            if !isRecorded { events.append(registered) }
        }
        return events.enumerated()
            .sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }
            .map(\.element)
    }

    /// The history as JSON.
    package var json: JSONObject {
        [
            "device": .string(self.id), "is_registered": .bool(self.device != nil),
            "events": .array(self.timeline.map { .object($0.json) }), "omissions": .string(Self.omissions),
        ]
    }

    /// The history as lines.
    package var lines: [String] {
        let lines = self.timeline.map { event in
            let words = [
                event.kind.rawValue, event.provider?.name, event.kind == .ended ? event.outcome?.name : nil,
                event.kind == .accepted ? nil : event.reason?.name,
                event.providerReason.isEmpty ? nil : "\"\(event.providerReason)\"",
                event.providerID.isEmpty ? nil : "id \(event.providerID)",
                event.send.isEmpty ? nil : "send \(event.send)",
            ]
            return "\(CalendarTime.text(event.at))  " + words.compactMap(\.self).joined(separator: "  ")
        }
        let state = self.device == nil ? ["\(self.id) is not registered now"] : []
        return lines + state + [Self.omissions]
    }
}
