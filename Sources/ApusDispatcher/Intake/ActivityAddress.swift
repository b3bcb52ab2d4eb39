internal import ApusCore
internal import ApusMessages

/// Selects the Live Activity token of a device: the one that starts activities of a type, or the one of a single
/// activity.
///
/// A push-to-start token starts an activity; the token of an activity updates and ends it
/// (https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications).
struct ActivityAddress: Sendable {
    /// The result of a search in a device record.
    enum Finding: Equatable, Sendable {
        /// The token's place in the record's bytes. `isOfOtherEnvironment` is true if it is known to be accepted in the
        /// other environment.
        case token(Range<Int>, isOfOtherEnvironment: Bool)
        /// The device has no such token, or the token has expired.
        case none
        /// The device's token is quarantined.
        case suspect
    }

    /// The kind of token.
    let kind: TokenKind
    /// The activity, or the type of activities, under which the token was registered.
    let activity: [UInt8]

    /// Creates the address of the token that a command needs; nil when the command goes to the device's own token or
    /// names the token itself.
    init?(_ command: borrowing SendCommand) {
        guard command.notification.kind == .liveActivity, command.target.isOfDevices,
            let change = command.notification.liveActivity
        else { return nil }
        let isStart = change.event == .start
        self.kind = isStart ? .liveActivityStart : .liveActivityUpdate
        self.activity = Array((isStart && change.activityID.isEmpty ? change.attributesType : change.activityID).utf8)
    }

    /// Finds the token in a record without copying it.
    func find(in view: DeviceRecordView, _ value: Span<UInt8>, now: UnixMilliseconds) -> Finding {
        let address = view.secondaryAddress(in: value) { address in
            address.kind == self.kind && Self.isCurrent(address.expiresAtSeconds, now)
                && DeviceRecordView.isEqual(address.activityID, self.activity.span, in: value)
        }
        guard let address else { return .none }
        guard !address.isSuspect else { return .suspect }
        return .token(address.token, isOfOtherEnvironment: address.isOfOtherEnvironment)
    }

    /// Returns the token's entry in a decoded record; nil if there is none.
    func address(of record: DeviceRecord, now: UnixMilliseconds) -> DeviceRecord.SecondaryAddress? {
        record.secondary.first { address in
            address.kind == self.kind && Self.isCurrent(address.expiresAtSeconds, now)
                && Array(address.activityID.utf8) == self.activity
        }
    }

    private static func isCurrent(_ expiresAtSeconds: Int64, _ now: UnixMilliseconds) -> Bool {
        expiresAtSeconds == 0 || expiresAtSeconds > now.seconds
    }
}
