internal import ApusCore
internal import FoundationEssentials

/// Tells in a few words which configuration was read and what it has, and what it lacks without being wrong.
package struct SettingsSummary: Hashable, Sendable {
    /// The maximum number of apps that are named in the sentence.
    private static let namedAppsMax = 20

    /// Something without which the services start, but send nothing for an app or for all of them.
    package struct Gap: Hashable, Sendable {
        /// The key of the setting; empty when it concerns the whole configuration.
        package var key: String
        /// The lack, as the continuation of a sentence that begins with the key.
        package var detail: String
        /// The remedy.
        package var cure: String

        /// The lack as a line.
        package var line: String {
            "warning: \(self.key.isEmpty ? "" : "\(self.key) ")\(self.detail). \(self.cure)"
        }
    }

    /// The full path of the file; nil when none was read.
    package let file: String?
    /// The names of the apps, sorted.
    package let apps: [String]
    /// The lacks of the configuration.
    package let gaps: [Gap]

    /// Summarizes a configuration.
    ///
    /// - Parameter common: the settings that all services share; nil when they cannot be read, so that nothing is known to be lacking.
    package init(_ source: SettingsSource, _ common: CommonSettings?) {
        self.file = source.file.map { $0.hasPrefix("/") ? $0 : "\(FileManager.default.currentDirectoryPath)/\($0)" }
        self.apps = common?.apps.keys.map(\.text).sorted() ?? []
        var gaps: [Gap] = []
        if source.file == nil {
            let place = "neither --config nor $\(SettingsReader.fileVariable) nor \(SettingsSource.defaultFile)"
            gaps.append(
                Gap(
                    key: "",
                    detail: "no file was read, there is \(place): all is from the environment and defaults",
                    cure: "Name the services' configuration with --config",
                )
            )
        }
        if let common, common.apps.isEmpty {
            gaps.append(Gap(key: "apps", detail: "has no app", cure: "Add the apps: nothing is sent for others"))
        }
        for (app, settings) in (common?.apps ?? [:]).sorted(by: { $0.key < $1.key })
        where !settings.hasProviders && !ProviderSection.installed.isEmpty {
            let names = ProviderSection.installed.map(\.name).joined(separator: ", ")
            let cure = "Add a section of \(names), unless it is only to register devices"
            gaps.append(Gap(key: "apps.\(app)", detail: "has no provider, so nothing can be sent for it", cure: cure))
        }
        self.gaps = gaps
    }

    /// The file and what is in it, as a sentence.
    ///
    /// - Parameter verdict: the judgement, such as "valid".
    package func sentence(_ verdict: String) -> String {
        let named = self.apps.prefix(Self.namedAppsMax).joined(separator: ", ")
        let more = self.apps.count > Self.namedAppsMax ? " and \(self.apps.count - Self.namedAppsMax) more" : ""
        let apps =
            switch self.apps.count {
            case 0: "no apps"
            case 1: "1 app: \(named)"
            case let count: "\(count) apps: \(named)\(more)"
            }
        return "\(self.place): \(verdict), \(apps)"
    }

    /// The file's path, or words for the lack of one.
    package var place: String { self.file ?? "no file, environment and defaults only" }
}
