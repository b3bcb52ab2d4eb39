package import ApusCore
internal import ApusMessages
package import ApusStore
package import ApusStreams

/// A user that is to be forgotten, with everything by which a message may name the user.
package struct ForgottenUser: Sendable {
    private let app: AppID
    private let user: UserID
    private let devices: Set<String>
    private let tokens: Set<[UInt8]>

    /// Finds the devices of a user that is to be forgotten, and those that were removed and can be brought back.
    package init(_ user: UserID, of app: AppID, in store: DeviceStore) async throws(StoreError) {
        let devices = try await store.devices(app, ofUser: user)
        self.init(user, of: app, devices: devices + (try await store.prunedDevices(app, ofUser: user)))
    }

    private init(_ user: UserID, of app: AppID, devices: [StoredDevice]) {
        self.app = app
        self.user = user
        self.devices = Set(devices.map(\.id))
        self.tokens = Set(devices.flatMap { [$0.record.token] + $0.record.secondary.map(\.token) })
    }

    /// True when the user has a device, or had one that can be brought back.
    package var hasDevices: Bool { !self.devices.isEmpty }

    /// Removes the dead letters that name the user. One to several recipients goes as a whole: what is left of it would be another message than
    /// the one that failed.
    ///
    /// - Parameters:
    ///   - pageSize: the letters that are read at once.
    ///   - announce: called before the first is removed, if there is one.
    package func forgetLetters(
        in letters: DeadLetterStore,
        pageSize: Int = StreamLimits.deadLettersPerReadMax,
        announce: () async throws -> Void = {},
    ) async throws {
        try await letters.remove(pageSize: pageSize, announce: announce, where: { self.isNamed(in: $0) })
    }

    /// Returns true when the message of a letter names the user, a device or a token. A receipt, and one that cannot be read, does when it is the
    /// app's, and has the name of the user or of a device as a whole field: others keep what only has the same letters somewhere.
    package func isNamed(in stored: StoredDeadLetter) -> Bool {
        switch stored.message {
        case .command(let command): command.app == self.app.text && self.isNamed(in: command.target)
        case .registration(let command): command.app == self.app.text && self.isNamed(in: command.action)
        case .outcomes(let batch):
            batch.app == self.app.text && batch.recipients.contains { self.devices.contains($0.device) }
        case .event(let event): event.app == self.app.text && self.devices.contains(event.device)
        case .receipt(let receipt): receipt.app == self.app.text && self.isAnyName(in: stored.letter)
        case .unit, .plan: false
        case .unreadable: self.isOfApp(stored.letter) && self.isAnyName(in: stored.letter)
        }
    }

    /// Returns true when the bytes of a letter have the name of the user or of a device as a whole field.
    private func isAnyName(in letter: DeadLetter) -> Bool {
        ([self.user.text] + self.devices).contains { Self.hasField($0, in: letter.payload) }
    }

    /// Returns true when a letter whose message cannot be read is the app's, by what was read of it, else by a field.
    private func isOfApp(_ letter: DeadLetter) -> Bool {
        letter.app.isEmpty ? Self.hasField(self.app.text, in: letter.payload) : letter.app == self.app.text
    }

    /// Returns true when bytes have a text as a whole field of protobuf, after its type and length, or as a string in quotes.
    static func hasField(_ text: String, in bytes: [UInt8]) -> Bool {
        guard !Self.hasQuoted(text, in: bytes) else { return true }
        let text = Array(text.utf8)
        var field: [UInt8] = []
        var length = text.count
        repeat {
            field.append(UInt8(length & 0x7f) | (length > 0x7f ? 0x80 : 0))
            length >>= 7
        } while length > 0
        field += text
        var rest = bytes[...]
        while let found = rest.firstRange(of: field) {
            // The three lowest bits of the byte before tell the wire type; 2 is of what has a length.
            if found.lowerBound > bytes.startIndex, bytes[found.lowerBound - 1] & 7 == 2 { return true }
            rest = bytes[(found.lowerBound + 1)...]
        }
        return false
    }

    private func isNamed(in target: Target) -> Bool {
        switch target {
        case .users(let users): users.contains(self.user.text)
        case .devices(let devices): devices.contains { self.devices.contains($0) }
        case .addresses(let addresses): addresses.contains { self.isToken($0.token, $0.provider) }
        case .expression(let text): self.isTested(in: text)
        default: false
        }
    }

    /// Returns true when an expression tests for the user. One that breaks the grammar does when it has the id in quotes.
    private func isTested(in expression: String) -> Bool {
        guard let read = try? AudienceExpression(parsing: expression) else {
            return Self.hasQuoted(self.user.text, in: Array(expression.utf8))
        }
        return read.tests(for: self.user)
    }

    /// Returns true when bytes have a text as a whole string of JSON or of an expression.
    private static func hasQuoted(_ text: String, in bytes: [UInt8]) -> Bool {
        [UInt8(ascii: "\""), UInt8(ascii: "'")].contains { bytes.contains([$0] + Array(text.utf8) + [$0]) }
    }

    private func isNamed(in action: RegistrationCommand.Action) -> Bool {
        switch action {
        case .register(let registration):
            registration.user == self.user.text || self.devices.contains(registration.device)
                || self.isToken(registration.token, registration.provider)
        case .bindUser(let device, let user): user == self.user.text || self.devices.contains(device)
        case .deleteUser(let user): user == self.user.text
        case .unregister(let device), .unbindUser(let device), .subscribe(let device, _), .unsubscribe(let device, _),
            .setAttributes(let device, _), .setBadge(let device, _):
            self.devices.contains(device)
        }
    }

    private func isToken(_ text: String, _ provider: Provider) -> Bool {
        (try? DeviceToken.stored(text, of: provider)).map { self.tokens.contains($0) } ?? false
    }
}
