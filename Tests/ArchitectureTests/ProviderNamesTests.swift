import Testing

/// Lists where a provider may be named, with the reason. A path that ends with a slash is a folder.
private let places: [String: String] = [
    "ApusAPNs/": "a provider's own target",
    "ApusFCM/": "a provider's own target",
    "ApusWebPush/": "a provider's own target",
    "ApusBuiltInProviders/": "the list of providers",
    "ApusProviderCommands/APNs/": "an operator's commands that only one provider has",
    "ApusProviderCommands/FCM/": "an operator's commands that only one provider has",
    "ApusProviderCommands/WebPush/": "an operator's commands that only one provider has",
    "apus/APNs/": "an operator's commands that only one provider has",
    "apus/FCM/": "an operator's commands that only one provider has",
    "apus/WebPush/": "an operator's commands that only one provider has",
    "apus/Apus.swift": "the list of commands",
    "apus/Credentials.swift": "help that says which credential cannot be asked about",
    "apus/Device.swift": "options for fields of the wire, and for the hosts of push services",
    "apus/Send.swift": "options for fields of the wire",
    "apus/Store.swift": "an option for the hosts of push services",
    "ApusCommand/Configuration/SettingDescriptions.swift": "the setting registration.fcm_stale_after",
    "ApusCommand/Stores/ForeignExport.swift": "names that other systems' exports have for providers",
    "ApusCommand/Sending/SendArguments.swift": "fields of the wire, by name",
    "ApusCommand/Sending/TargetText.swift": "audiences that a provider holds, in words",
    "ApusCommand/Streams/ReplayPreview.swift": "the kinds of audiences of the wire, by name",
    "ApusCore/Provider.swift": "the code, name and traits of each provider, which the wire and the store have",
    "ApusCore/Limits.swift": "limits of fields of the wire",
    "ApusCore/EndpointHosts.swift":
        "registration, imports and dispatchers check endpoints by one list, and the first two know no provider's target",
    "ApusDispatcher/Intake/ChannelGate.swift": "fields of the wire, by name",
    "ApusHTTP2/Client/HPACKEncoder.swift": "the header with a request's id, by name",
    "ApusHTTP2/Client/HTTP2Answer.swift": "headers that answers keep, by name",
    "ApusHTTP2/Request/RequestID.swift": "the header with a request's id, by name",
    "ApusMessages/Codec/": "the codes and fields of the wire",
    "ApusMessages/DeviceRecord.swift": "fields of the wire, named and documented by whose they are",
    "ApusMessages/Notification.swift": "fields of the wire, named and documented by whose they are",
    "ApusMessages/RecipientKeys.swift": "fields of the wire, which others reach by what they hold",
    "ApusMessages/RegistrationCommand.swift": "fields of the wire, named and documented by whose they are",
    "ApusMessages/SendCommand.swift": "fields of the wire, named and documented by whose they are",
    "ApusProviders/Notification/NotificationRules.swift": "the cure of an error, which is a field of the wire",
    "ApusProviders/Notification/KindRules.swift": "fields of the wire, by name",
    "ApusRegistration/Devices/DeviceLine.swift": "fields of the wire, by name",
    "ApusRegistration/Devices/DevicePatch.swift": "fields of the wire, by name",
    "ApusRegistration/Devices/RegistrationBody.swift": "a subscription as browsers give it, and fields of the wire",
    "ApusRegistration/Devices/RegistrationRules.swift":
        "what a browser's subscription must have: registration checks it and knows no provider's target",
    "ApusRegistration/HTTPRoute.swift": "the path that gives pages the app's key",
    "ApusRegistration/Sends/GorushAPI.swift": "gorush's form, which is of platforms, as fields of the wire",
    "ApusRegistration/Sends/GorushBody.swift": "gorush's form, which is of platforms, as fields of the wire",
    "ApusRegistration/Sends/MatrixAPI.swift": "tokens as apps of Matrix write them",
    "ApusRegistration/Sends/MatrixBody.swift": "what apps of Matrix expect from each provider, as fields of the wire",
    "ApusRegistration/Sends/NotificationBody.swift": "fields of the wire, by name",
    "ApusRegistration/Sends/RequestBodyReading.swift": "the providers that apps of Matrix have tokens of",
    "ApusRegistration/Sends/SendBody.swift": "fields of the wire, by name",
    "ApusRegistration/Service/APIResponder.swift": "the path that gives pages the app's key",
    "ApusSimulation/Run/": "the app and the devices of a simulation, which have providers",
    "ApusTLS/Crypto/AppleCertificate.swift":
        "what the simulator issues and a provider reads: they share no other target",
    "ApusFuzzing/": "tries the readers of the providers' answers and of payloads with any bytes",
    "ApusSimulator/APNs/": "a provider's folder of the simulator",
    "ApusSimulator/FCM/": "a provider's folder of the simulator",
    "ApusSimulator/WebPush/": "a provider's folder of the simulator",
    "ApusSimulator/SimulatedProvider.swift": "the list of simulated providers",
    "ApusLab/": "load tests and drills against the simulated providers",
    "apus-lab/": "options of the simulated providers",
]

/// One provider is one target: nothing else names it, in code or in comments.
@Suite struct ProviderNamesTests {
    private static func isPlace(_ path: String) -> Bool {
        places.keys.contains { $0.hasSuffix("/") ? path.hasPrefix($0) : path == $0 }
    }

    @Test func `Only a provider's own places name the provider`() throws {
        let name = /apns|fcm|apple|google|web ?push|vapid/.ignoresCase()
        // A source may be cited by its address anywhere.
        let address = /https?:\S+/
        var used: Set<String> = []
        for file in try SourceTree.files(under: "Sources", suffixes: [".swift", ".lua"]) {
            for (number, line) in file.lines.enumerated()
            where line.contains(name) && line.replacing(address, with: "").contains(name) {
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
            // Its inputs are the providers' answers.
            "ApusFuzzing",
        ]
        for file in try SourceTree.swiftFiles() where !knowing.contains(file.target) {
            for line in file.lines {
                guard let module = SourceTree.importedModule(line), targets.contains(module) else { continue }
                Issue.record("\(file.path) imports \(module): it goes by the list of providers")
            }
        }
    }
}
