package import ApusCore
package import ApusDispatcher
package import ApusFeedback
package import ApusRegistration
package import ApusService

/// Checks a configuration as each of the services reads it, and the files that it starts with, for `apus config check` and `apus doctor`.
package struct ConfigurationCheck: Sendable {
    /// A mistake and the services that it concerns.
    package struct Mistake: Hashable, Sendable {
        /// The mistake.
        package var issue: SettingsIssue
        /// The services that do not start with it.
        package var services: [ServiceName]
    }

    /// The mistakes, each once, in the order of the services.
    package private(set) var mistakes: [Mistake] = []
    /// The settings that services accept but that expose something, each once.
    package private(set) var warnings: [ConfigurationWarning] = []
    /// Registration's settings; nil when they cannot be read.
    package private(set) var registration: Settings<RegistrationSettings>?
    /// The dispatcher's settings; nil when they cannot be read.
    package private(set) var dispatcher: Settings<DispatcherSettings>?
    /// Feedback's settings; nil when they cannot be read.
    package private(set) var feedback: Settings<FeedbackSettings>?

    /// The file and the apps, and what the configuration lacks.
    package private(set) var summary: SettingsSummary

    /// Reads the configuration as all services do, with the keys and certificates in its files.
    package init(_ source: SettingsSource) {
        self.summary = SettingsSummary(source, nil)
        self.registration = self.load(source, .registration)
        self.dispatcher = self.load(source, .dispatcher)
        self.feedback = self.load(source, .feedback)
        self.summary = SettingsSummary(source, self.common)
        if let own = self.registration?.own {
            self.add(ConfigurationWarning.api(own.listen, hasTLS: own.tls != nil))
        }
    }

    private mutating func add(_ warnings: [ConfigurationWarning]) {
        for warning in warnings where !self.warnings.contains(warning) { self.warnings.append(warning) }
    }

    private mutating func load<Own: ServiceSettings>(
        _ source: SettingsSource,
        _ service: ServiceName,
    ) -> Settings<Own>? {
        if let readings = try? source.survey(Own.self, for: service).readings {
            let mode = ConfigurationWarning.mode(ofFileAt:)
            self.add(ConfigurationWarning.files(readings, configuration: source.file, mode: mode))
        }
        do throws(SettingsError) {
            let settings = try source.load(Own.self, for: service)
            self.add(ConfigurationWarning.redis(settings.common.redis))
            self.add(ConfigurationWarning.admin(settings.common.admin))
            self.add(settings.issuesOfFiles(), of: service)
            return settings
        } catch {
            self.add(error.issues, of: service)
            return nil
        }
    }

    private mutating func add(_ issues: [SettingsIssue], of service: ServiceName) {
        for issue in issues {
            if let place = self.mistakes.firstIndex(where: { $0.issue == issue }) {
                self.mistakes[place].services.append(service)
            } else {
                self.mistakes.append(Mistake(issue: issue, services: [service]))
            }
        }
    }

    /// Returns the settings that all services share, without a look into the files of keys and certificates; nil when no service can read them.
    package static func common(of source: SettingsSource) -> CommonSettings? {
        (try? source.load(DispatcherSettings.self, for: .dispatcher).common)
            ?? (try? source.load(FeedbackSettings.self, for: .feedback).common)
            ?? (try? source.load(RegistrationSettings.self, for: .registration).common)
    }

    /// The settings that all services share; nil when no service can read them.
    package var common: CommonSettings? {
        self.dispatcher?.common ?? self.feedback?.common ?? self.registration?.common
    }

    /// The services that could start with the configuration.
    package var valid: [ServiceName] {
        ServiceName.allCases.filter { service in !self.mistakes.contains { $0.services.contains(service) } }
    }

    /// Returns the names of services as text, "all services" for all of them.
    package static func words(_ services: [ServiceName]) -> String {
        services.count == ServiceName.allCases.count ? "all services" : services.map(\.rawValue).joined(separator: ", ")
    }

    /// The result as JSON.
    package var json: JSONObject {
        let mistakes = self.mistakes.map { mistake -> JSONValue in
            var object: JSONObject = ["key": .string(mistake.issue.key), "rule": .string(mistake.issue.message)]
            if let place = mistake.issue.place { object["place"] = .string(place) }
            object["services"] = .array(mistake.services.map { .string($0.rawValue) })
            return .object(object)
        }
        let gaps = self.gaps.map(\.json)
        return [
            "file": self.summary.file.map { .string($0) } ?? .null,
            "apps": .array(self.summary.apps.map { .string($0) }),
            "valid": .bool(self.mistakes.isEmpty), "mistakes": .array(mistakes),
            "warnings": .array(gaps + self.warnings.map(\.json)),
        ]
    }

    /// The lacks of the configuration, as warnings.
    package var gaps: [ConfigurationWarning] {
        self.summary.gaps.map { ConfigurationWarning(key: $0.key, detail: $0.detail, cure: $0.cure) }
    }

    /// The result as lines.
    package var lines: [String] {
        let mistakes = self.mistakes.map { "\($0.issue) [\(Self.words($0.services))]" }
        let count = mistakes.count == 1 ? "1 mistake" : "\(mistakes.count) mistakes"
        let verdict =
            mistakes.isEmpty
            ? [self.summary.sentence("valid for all services")] : ["\(self.summary.place): \(count)"] + mistakes
        return verdict + self.summary.gaps.map(\.line) + self.warnings.map(\.line)
    }
}
