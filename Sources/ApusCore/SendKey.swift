/// Names a send among those of all apps: by its app and by its id there.
///
/// Apps choose ids independently, so that the same id in two apps is two sends. Neither part can have a slash in it, which makes
/// `<app>/<id>` unambiguous: as such it stands in Redis keys, plan messages and work units.
public struct SendKey: Hashable, Sendable, CustomStringConvertible {
    /// The app's name.
    public let app: String
    /// The send's id within the app.
    public let id: String

    /// Bytes of the longest text form.
    public static let bytesMax = Limits.appIDBytesMax + 1 + Limits.sendIDBytesMax

    /// Joins an app and an id, which were checked before or are only looked for.
    public init(app: String, id: String) {
        self.app = app
        self.id = id
    }

    /// Parses `<app>/<id>`; nil for anything else.
    public init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let app = try? AppID(String(parts[0])), let id = try? SendID(String(parts[1])) else {
            return nil
        }
        self.init(app: app.text, id: id.text)
    }

    /// The text `<app>/<id>`.
    public var description: String { "\(self.app)/\(self.id)" }
}
