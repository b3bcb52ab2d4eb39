internal import ApusCore
internal import ApusRedis
internal import ApusService
internal import FoundationEssentials
internal import Glibc

/// Names an installation that commands can be pointed at: `apus context`.
package struct InstallationContext: Hashable, Sendable {
    /// The address of its Redis; nil when the configuration names it.
    package var redis: String?
    /// The ACL user.
    package var user: String?
    /// The path of the file that holds the user's password.
    package var passwordFile: String?
    /// The path of the CA certificates that the server's certificate is verified with; nil for the system's.
    package var caFile: String?
    /// The path of the services' configuration; nil for none.
    package var config: String?

    /// Creates a context without an address.
    package init() {}

    init(_ json: JSONValue) {
        self.redis = json["redis"]?.string
        self.user = json["user"]?.string
        self.passwordFile = json["password_file"]?.string
        self.caFile = json["ca_file"]?.string
        self.config = json["config"]?.string
    }

    /// The address without the password; nil when the configuration names it.
    package var shownRedis: String? { self.redis.map { (try? RedisConfiguration(url: $0).description) ?? $0 } }

    var json: JSONObject {
        var object = JSONObject()
        for (name, value) in [
            ("redis", self.redis), ("user", self.user), ("password_file", self.passwordFile),
            ("ca_file", self.caFile), ("config", self.config),
        ] {
            if let value { object[name] = .string(value) }
        }
        return object
    }
}

/// Keeps the contexts of a person in one JSON file.
package struct ContextFile: Sendable {
    /// The maximum bytes of the file.
    static let bytesMax = 1 << 20

    /// The path of the file.
    package let path: String
    /// The contexts by name.
    package var contexts: [String: InstallationContext] = [:]
    /// The name of the context that commands use; nil for none.
    package var current: String?

    /// Returns the file's path: `$XDG_CONFIG_HOME/apus/contexts.json`, else `~/.config/apus/contexts.json`.
    ///
    /// Source: https://specifications.freedesktop.org/basedir-spec/latest/
    package static func path(environment: [String: String]) -> String {
        let base = environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        return "\(base ?? "\(environment["HOME"] ?? "")/.config")/apus/contexts.json"
    }

    /// Reads the file; one that is not there holds no contexts.
    ///
    /// - Throws: `CommandFailure` when it cannot be read or is not of this form.
    package init(environment: [String: String] = ProcessInfo.processInfo.environment) throws(CommandFailure) {
        self.path = Self.path(environment: environment)
        guard let data = FileManager.default.contents(atPath: self.path) else {
            guard unsafe access(self.path, F_OK) != 0, errno == ENOENT || errno == ENOTDIR else {
                throw CommandFailure("\(self.path) cannot be read: \(SystemErrorText.words(errno))")
            }
            return
        }
        let json: JSONValue
        do throws(JSONError) {
            json = try JSONValue(parsing: Array(data), bytesMax: Self.bytesMax)
        } catch {
            throw CommandFailure("\(self.path) is not valid JSON (\(error)): correct or remove it")
        }
        self.current = json["current"]?.string
        for member in json["contexts"]?.object?.members ?? [] {
            self.contexts[member.name] = InstallationContext(member.value)
        }
    }

    /// Writes the file, which only its owner may read: an address may hold a password.
    ///
    /// - Throws: `CommandFailure`.
    package func save() throws(CommandFailure) {
        var contexts = JSONObject()
        for (name, context) in self.contexts.sorted(by: { $0.key < $1.key }) { contexts[name] = .object(context.json) }
        var json: JSONObject = ["contexts": .object(contexts)]
        if let current { json["current"] = .string(current) }
        let folder = URL(filePath: self.path).deletingLastPathComponent()
        do {
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try Data((JSONValue.object(json).text + "\n").utf8).write(to: URL(filePath: self.path), options: .atomic)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: self.path)
        } catch {
            throw CommandFailure("\(self.path) cannot be written: \(SystemErrorText.words(of: error))")
        }
    }

    /// Returns a context by name.
    ///
    /// - Throws: `CommandFailure` that lists the names there are.
    package func context(_ name: String) throws(CommandFailure) -> InstallationContext {
        if let context = self.contexts[name] { return context }
        let names = self.contexts.keys.sorted().joined(separator: ", ")
        let known = names.isEmpty ? "there are none yet: apus context add" : "there are: \(names)"
        throw CommandFailure("there is no context \(name); \(known)")
    }
}
