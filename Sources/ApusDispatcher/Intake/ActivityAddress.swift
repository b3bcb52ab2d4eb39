internal import ApusCore
internal import ApusMessages

/// Which of a device's further tokens a Live Activity's change goes to: the one that starts activities of a type, or that of one activity.
///
/// They are kept apart: a push-to-start token starts, the token of an activity updates and ends it
/// (https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications).
struct ActivityAddress: Sendable {
    /// Where one was found.
    enum Finding: Equatable, Sendable {
        /// There, in the record's bytes; perhaps known to be taken in the other environment.
        case token(Range<Int>, isOfOtherEnvironment: Bool)
        /// The device has none, or its time is over.
        case none
        /// Its token is under suspicion.
        case suspect
    }

    /// What the token is for.
    let kind: TokenKind
    /// The activity under which it was registered.
    let activity: [UInt8]

    /// What a command needs; nil: the device's own token, or one that the command itself names.
    init?(_ command: SendCommand) {
        guard command.notification.kind == .liveActivity, command.target.isOfDevices,
            let change = command.notification.liveActivity
        else { return nil }
        let isStart = change.event == .start
        self.kind = isStart ? .liveActivityStart : .liveActivityUpdate
        self.activity = Array((isStart && change.activityID.isEmpty ? change.attributesType : change.activityID).utf8)
    }

    /// Looks through a record where it lies.
    func find(in view: DeviceRecordView, _ value: Span<UInt8>, now: UnixMilliseconds) -> Finding {
        let address = view.secondaryAddress(in: value) { address in
            address.kind == self.kind && Self.isCurrent(address.expiresAtSeconds, now)
                && DeviceRecordView.isEqual(address.activityID, self.activity.span, in: value)
        }
        guard let address else { return .none }
        guard !address.isSuspect else { return .suspect }
        return .token(address.token, isOfOtherEnvironment: address.isOfOtherEnvironment)
    }

    /// Looks through a record that was read; nil: none.
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
