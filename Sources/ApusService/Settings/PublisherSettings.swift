public import ApusCore

/// Describes a publisher that has mailboxes of its own: a backend that may publish for some apps only.
public struct PublisherSettings: Hashable, Sendable {
    /// The maximum of publishers with mailboxes of their own: a dispatcher reads two more streams of each shard for each of them.
    public static let countMax = 64

    /// The apps that it may publish for; at least one.
    public var apps: Set<AppID>

    init(_ reader: SettingsReader, at key: String, among apps: some Collection<AppID>) {
        let names = reader.strings("\(key).apps", default: [])
        self.apps = []
        if names.isEmpty { reader.issue("\(key).apps", "is required: a list of apps, such as [shop]") }
        for name in names {
            guard let app = apps.first(where: { $0.text == name }) else {
                reader.issue("\(key).apps", "must be a list of apps that stand under apps: there is no such app there")
                return
            }
            self.apps.insert(app)
        }
    }
}
