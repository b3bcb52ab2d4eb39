internal import ApusCore
package import ApusInstallation
package import ApusRedis
internal import ApusService
internal import ApusTLS
package import ApusTerminal

/// Sets a user of Redis on every server, replicas included: `apus acl set`.
package struct RedisUserSetup: Sendable {
    /// The result on one server.
    package struct Outcome: Hashable, Sendable {
        /// The server.
        package var server: RedisEndpoint
        /// The reason why the server forgets the user when it restarts; nil when it does not.
        package var warning: String?
    }

    /// The result on all servers.
    package struct Report: Hashable, Sendable {
        /// The results on the servers that have the user now.
        package var outcomes: [Outcome]
        /// The servers that were left out because the cluster has marked them as failed.
        package var skipped: [RedisEndpoint]

        /// True when every server has the user and keeps it.
        package var isWhole: Bool { self.skipped.isEmpty && self.outcomes.allSatisfy { $0.warning == nil } }
    }

    /// The user.
    package let user: RedisUser
    /// The user's name in Redis.
    package let name: String
    private let password: String

    /// Creates a set-up.
    ///
    /// - Parameters:
    ///   - name: the name in Redis; nil for the usual one.
    ///   - passwordFile: the file with the password, which is read as services read it; nil for a placeholder.
    /// - Throws: `CommandFailure` for a name that cannot be one, and a file that cannot be read or holds no password.
    package init(_ user: RedisUser, name: String?, passwordFile: String?) throws(CommandFailure) {
        self.user = user
        self.name = name ?? user.defaultName
        guard (try? PublisherName(self.name)) != nil else {
            throw CommandFailure("a user's name is 1 to 64 of the characters a-z, 0-9 and -")
        }
        guard let passwordFile else {
            self.password = ">PASSWORD"
            return
        }
        guard let secret = HiddenText(trimming: passwordFile)?.text else {
            throw CommandFailure("the password file \(passwordFile) cannot be read: is it there, and may you read it?")
        }
        guard !secret.isEmpty else {
            throw CommandFailure("the password file \(passwordFile) is empty: write the password there")
        }
        guard !secret.contains(where: \.isNewline) else {
            throw CommandFailure(
                "the password file \(passwordFile) has several lines: services would take all of them for it"
            )
        }
        self.password = "#" + Hexadecimal.encode(SHA256.hash(utf8: secret))
    }

    /// The user as a line of Redis' ACL file; the password is a digest.
    package var line: String { self.user.line(named: self.name, password: self.password) }

    /// Sets the user on every server, replacing one of that name.
    ///
    /// - Throws: `CommandFailure` with the first server that refuses; those before it have the user.
    package func apply(on client: RedisClient) async throws -> Report {
        let rules = ["reset", "on", self.password] + self.user.rules(named: self.name)
        let command = RedisCommand("ACL", [.text("SETUSER"), .text(self.name)] + rules.map { .text($0) })
        var outcomes: [Outcome] = []
        for server in try await client.servers() {
            do throws(RedisError) {
                _ = try await client.send(command, to: server, options: .idempotent)
            } catch {
                let done = outcomes.isEmpty ? "" : " (set on \(outcomes.count) servers before it)"
                let cure = error.code == .noPermission ? ": log in as an administrator, who may ACL SETUSER" : ""
                throw CommandFailure("\(server) did not take the user\(done): \(error.message)\(cure)")
            }
            outcomes.append(Outcome(server: server, warning: await Self.save(on: client, at: server)))
        }
        return Report(outcomes: outcomes, skipped: client.topology.failedServers)
    }

    /// Writes the users of a server to its disk. Returns the reason why they are not there.
    private static func save(on client: RedisClient, at server: RedisEndpoint) async -> String? {
        // A server has either a file of users or users in its configuration file.
        for command in [RedisCommand("ACL", "SAVE"), RedisCommand("CONFIG", "REWRITE")]
        where (try? await client.send(command, to: server, options: .idempotent)) != nil {
            return nil
        }
        return "it has neither an aclfile nor a configuration file that it can write: the user is gone when it restarts"
    }
}
