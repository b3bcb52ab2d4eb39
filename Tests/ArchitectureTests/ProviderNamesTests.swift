import Testing

/// Lists where a provider may be named, with the reason. A path that ends with a slash is a folder.
private let places: [String: String] = [
    "ApusAPNs/": "a provider's own target",
    "ApusFCM/": "a provider's own target",
    "ApusWebPush/": "a provider's own target",
    "ApusBuiltInProviders/": "the list of providers",
    "ApusProviderCommands/APNs/": "an operator's commands that only one provider has",
    "ApusProviderCommands/FCM/": "an operator's commands that only one provider has",
    "apus/APNs/": "an operator's commands that only one provider has",
    "apus/FCM/": "an operator's commands that only one provider has",
    "ApusMessages/Codec/": "the codes and fields of the wire",
    "ApusMessages/Notification.swift": "fields of the wire, named and documented by whose they are",
    "ApusProviders/Notification/KindRules.swift": "fields of the wire, by name",
    "ApusRegistration/Sends/NotificationBody.swift": "fields of the wire, by name",
    "ApusTLS/Crypto/AppleCertificate.swift":
        "what the simulator issues and a provider reads: they share no other target",
    "ApusSimulator/": "stands in for providers",
    "ApusLab/": "load tests and drills against the simulated providers",
    "apus-lab/": "options of the simulated providers",
]

/// One provider is one target: nothing else names it, in code or in comments.
@Suite struct ProviderNamesTests {
    private static func isPlace(_ path: String) -> Bool {
        places.keys.contains { $0.hasSuffix("/") ? path.hasPrefix($0) : path == $0 }
    }

    @Test func `Only a provider's own places name the provider`() throws {
        let name = /\.apns\b|\.fcm\b|Apple|Google|FCM|APNs/
        var used: Set<String> = []
        for file in try SourceTree.swiftFiles() {
            for (number, line) in file.lines.enumerated() where line.contains(name) {
                used.formUnion(places.keys.filter { $0.hasSuffix("/") ? file.path.hasPrefix($0) : file.path == $0 })
                #expect(Self.isPlace(file.path), "\(file.path):\(number + 1) names a provider: \(line)")
            }
        }
        // A place that names nobody any more is taken out of the list.
        for place in places.keys.sorted() where !used.contains(place) {
            Issue.record("\(place) names no provider: take it out of the list")
        }
    }

    @Test func `Only the lists, the operator's own commands and a benchmark know the providers' targets`() throws {
        let targets: Set = ["ApusAPNs", "ApusFCM", "ApusWebPush"]
        let knowing: Set = [
            "ApusAPNs", "ApusFCM", "ApusWebPush", "ApusBuiltInProviders", "ApusProviderCommands", "apus",
            // A benchmark measures its encryption.
            "ApusLab",
        ]
        for file in try SourceTree.swiftFiles() where !knowing.contains(file.target) {
            for line in file.lines {
                guard let module = SourceTree.importedModule(line), targets.contains(module) else { continue }
                Issue.record("\(file.path) imports \(module): it goes by the list of providers")
            }
        }
    }
}
