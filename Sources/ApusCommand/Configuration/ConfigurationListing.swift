package import ApusCore
internal import ApusDispatcher
internal import ApusFeedback
internal import ApusRegistration
package import ApusService
package import ApusTerminal

/// Lists every setting with its effective value and origin, for `apus config show`.
package struct ConfigurationListing: Sendable {
    /// A setting of one or more services.
    package struct Row: Hashable, Sendable {
        /// The key, such as `redis.url`.
        package var key: String
        /// The value, fit to be shown; nil when there is none.
        package var value: String?
        /// The origin: `apus.yaml:12`, `APUS_REDIS_URL`, `default`, or empty.
        package var origin: String
        /// The services that read this value.
        package var services: [ServiceName]
    }

    /// The rows in the order in which services read them.
    package private(set) var rows: [Row] = []
    /// True when every service accepts the configuration: see `apus config check`.
    package private(set) var isValid = true

    /// Reads a configuration as the given services do.
    ///
    /// - Throws: when it cannot be read at all.
    package init(_ source: SettingsSource, of services: [ServiceName]) throws(SettingsError) {
        for service in services {
            let survey =
                switch service {
                case .registration: try source.survey(RegistrationSettings.self, for: service)
                case .dispatcher: try source.survey(DispatcherSettings.self, for: service)
                case .feedback: try source.survey(FeedbackSettings.self, for: service)
                }
            self.isValid = self.isValid && survey.mistakes.isEmpty
            for reading in survey.readings { self.add(reading, service) }
        }
    }

    private mutating func add(_ reading: SettingReading, _ service: ServiceName) {
        let origin =
            switch reading.origin {
            case .given(let place): place
            case .default: "default"
            case .unset: ""
            }
        let row = Row(key: reading.key, value: reading.value, origin: origin, services: [service])
        // Two services may read the same key differently: each has a section that takes precedence.
        let place = self.rows.firstIndex { $0.key == row.key && $0.value == row.value && $0.origin == row.origin }
        if let place { self.rows[place].services.append(service) } else { self.rows.append(row) }
    }

    /// The settings with given values.
    package var given: [Row] { self.rows.filter { !$0.origin.isEmpty && $0.origin != "default" } }

    /// Returns the rows as JSON.
    package static func json(_ rows: [Row]) -> JSONObject {
        let settings = rows.map { row -> JSONValue in
            [
                "key": .string(row.key), "value": row.value.map { .string($0) } ?? .null,
                "from": .string(row.origin), "services": .array(row.services.map { .string($0.rawValue) }),
            ]
        }
        return ["settings": .array(settings)]
    }

    /// Returns the rows as a table.
    package static func table(_ rows: [Row]) -> TextTable {
        var table = TextTable(["KEY", "VALUE", "FROM", "READ BY"])
        for row in rows {
            table.add([row.key, row.value ?? "-", row.origin, ConfigurationCheck.words(row.services)])
        }
        return table
    }
}
