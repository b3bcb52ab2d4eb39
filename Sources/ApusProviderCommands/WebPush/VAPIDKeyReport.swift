internal import ApusCommand
package import ApusCore
internal import ApusMessages
package import ApusStore
internal import ApusTLS
package import ApusTerminal
internal import ApusWebPush

/// Counts an app's browsers by the VAPID key that they subscribed with: a key may be retired when no browser needs it any more.
package struct VAPIDKeyReport: Hashable, Sendable {
    /// A key, of the configuration or only of subscriptions.
    package struct Key: Hashable, Sendable {
        /// The public point, 65 bytes.
        package let point: [UInt8]
        /// The key's file; nil: the configuration has no such key, and its browsers get nothing.
        package let file: String?
        /// The number of browsers that subscribed with it.
        package fileprivate(set) var devices = 0

        /// The public point in base64url, as browsers take it.
        package var text: String { Base64URL.encode(self.point) }
    }

    /// The keys of the configuration, the current one first, then keys that only subscriptions name.
    package private(set) var keys: [Key]
    /// The number of browsers that were registered without their key while the configuration named none; they are sent to with the current
    /// one, which may be another than theirs.
    package private(set) var unnamed = 0

    /// Creates a report without devices.
    package init(_ keys: [(file: String, point: [UInt8])]) {
        self.keys = keys.map { Key(point: $0.point, file: $0.file) }
    }

    /// Counts a browser by the key that it subscribed with; empty: its registration did not say.
    package mutating func count(_ point: [UInt8]) {
        guard !point.isEmpty else {
            self.unnamed += 1
            return
        }
        let index = self.keys.firstIndex { $0.point == point } ?? self.keys.endIndex
        if index == self.keys.endIndex { self.keys.append(Key(point: point, file: nil)) }
        self.keys[index].devices += 1
    }

    /// Returns why a key cannot be retired; nil when it can.
    ///
    /// - Parameter name: the key's public point in base64url, or its file as the configuration names it.
    package func obstacle(toRetiring name: String) -> String? {
        guard let index = self.keys.firstIndex(where: { $0.text == name || $0.file == name }),
            let file = self.keys[index].file
        else { return "the configuration has no key \(name): name its file or its public key" }
        guard index > 0 else {
            return "\(file) is the current key: put another one in key_file first, and this one in older_key_files"
        }
        let devices = self.keys[index].devices
        guard devices > 0 else { return nil }
        return
            "\(devices) \(devices == 1 ? "browser" : "browsers") subscribed with \(file) and would get nothing any more: "
            + "wait until they have subscribed anew"
    }

    /// The warning beside a key that can be retired; nil when every browser's key is known.
    package var warning: String? {
        guard self.unnamed > 0 else { return nil }
        let browsers = self.unnamed == 1 ? "1 browser was" : "\(self.unnamed) browsers were"
        return
            "\(browsers) registered without application_server_key and may have subscribed with any key: they are sent to with the "
            + "current one, and quarantined where that is another than theirs"
    }

    /// The report as a table.
    package var table: TextTable {
        var table = TextTable(["PUBLIC KEY", "FILE", "BROWSERS"])
        for (index, key) in self.keys.enumerated() {
            table.add([key.text, (key.file ?? "not configured") + (index == 0 ? " (current)" : ""), "\(key.devices)"])
        }
        if self.unnamed > 0 { table.add(["not said at registration", "", "\(self.unnamed)"]) }
        return table
    }

    /// The report as JSON.
    package var json: JSONObject {
        [
            "keys": .array(
                self.keys.enumerated().map { index, key in
                    [
                        "public_key": .string(key.text), "file": key.file.map { .string($0) } ?? .null,
                        "current": .bool(index == 0), "browsers": .integer(key.devices),
                    ]
                }
            ),
            "unnamed": .integer(self.unnamed),
        ]
    }
}

extension ProviderAccess {
    /// Counts the app's browsers by key. It reads all of them.
    package func vapidKeys(in store: DeviceStore) async throws -> VAPIDKeyReport {
        guard let settings = self.settings.webpush else {
            throw CommandFailure("\(self.app) has no section webpush in the configuration")
        }
        var report = VAPIDKeyReport(
            try ([settings.keyFile] + settings.olderKeyFiles).map { file in
                (file, try Self.read(file) { try VAPIDKey(file: $0, subject: settings.subject) }.publicPoint)
            }
        )
        try await store.forEachDevice(self.app, of: .webpush) { devices in
            for device in devices { report.count(device.device.record.applicationServerKey) }
        }
        return report
    }
}
