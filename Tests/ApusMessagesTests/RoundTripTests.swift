import ApusCore
import ApusMessages
import Testing

@Suite("Every message comes back as it went") struct RoundTripTests {
    private func expectRoundTrip<M: Message>(_ message: M) throws {
        let bytes = try message.encode()
        #expect(try M.decode(bytes) == message)
        #expect(try M.decode(bytes).encode() == bytes)
    }

    @Test func sendCommand() throws {
        try self.expectRoundTrip(Samples.sendCommand)
        for target in Samples.targets {
            try self.expectRoundTrip(SendCommand(app: "shop", target: target, notification: Notification()))
        }
    }

    @Test func workUnit() throws {
        for recipients in Samples.recipients {
            var unit = Samples.workUnit
            unit.recipients = recipients
            try self.expectRoundTrip(unit)
            try self.expectRoundTrip(WorkUnit(send: "s", route: RouteNumber(1), recipients: recipients))
        }
    }

    @Test func outcomeBatch() throws {
        try self.expectRoundTrip(Samples.outcomeBatch)
        try self.expectRoundTrip(OutcomeBatch(send: "s", app: "a", route: RouteNumber(1), provider: .fcm))
    }

    @Test func deviceRecord() throws {
        try self.expectRoundTrip(Samples.deviceRecord)
        try self.expectRoundTrip(DeviceRecord(device: "d", token: [0]))
    }

    @Test func deviceRegistration() throws {
        try self.expectRoundTrip(Samples.deviceRegistration)
        var registration = DeviceRegistration(device: "d", provider: .apns, token: "00")
        try self.expectRoundTrip(registration)
        registration.topics = []
        try self.expectRoundTrip(registration)
    }
}
