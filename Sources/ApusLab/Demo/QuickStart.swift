internal import ApusRedis
internal import ApusSimulator
internal import ApusTerminal
internal import ApusTestKit
internal import FoundationEssentials

/// Runs the first send of the README against a simulated Apple and Google, with the programs and commands that a real installation has, and
/// leaves the configuration as a start.
package struct QuickStart: Sendable {
    /// The maximum time of one command.
    private static let patience = Duration.seconds(60)
    /// The token of the first phone, as the README has it.
    private static let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

    private let folder: String
    private let isKept: Bool

    /// Creates a quick start.
    ///
    /// - Parameters:
    ///   - folder: the folder that the configuration is written to.
    ///   - isKept: true to leave everything running until the task is cancelled.
    package init(into folder: String, isKept: Bool) {
        self.folder = folder
        self.isKept = isKept
    }

    /// Returns the commands of the first send, as one types them.
    package static let commands: [[String]] = [
        ["apus", "init"],
        ["apus", "key", "create", "--app", "demo", "--role", "admin", "backend"],
        [
            "apus", "device", "put", "--app", "demo", "my-phone", "--provider", "apns", "--topic", "news", "--user",
            "ada",
            "--token", Self.token,
        ],
        ["apus", "send", "--app", "demo", "--topic", "news", "--title", "Swifts are back", "--wait"],
        ["apus", "device", "history", "--app", "demo", "my-phone"],
        ["apus", "services"],
    ]

    /// Runs it.
    ///
    /// - Throws: `LocalClusterError` when a command fails, with what it said.
    package func run() async throws {
        let path = "\(self.folder)/apus.yaml"
        guard !FileManager.default.fileExists(atPath: path) else {
            throw LocalClusterError("\(path) is there already: remove it, or name another folder with --into")
        }
        Demo.step("Starting Redis, a simulated Apple and Google, and the three services")
        var configuration = LocalClusterConfiguration()
        // The sizes that apus init lays out.
        configuration.keyspace = Keyspace()
        try await LocalCluster.with(configuration) { cluster in
            let (registration, port) = try await cluster.startRegistration()
            let dispatcher = try await cluster.startDispatcher()
            let feedback = try await cluster.startFeedback()
            for (number, command) in Self.commands.enumerated() {
                Console.message("\n" + Console.bold("$ " + Self.line(command)))
                try await self.perform(command, number, cluster)
            }
            let accepted = cluster.simulator.ledger.snapshot.accepted.values.reduce(0, +)
            guard accepted == 1 else {
                throw LocalClusterError("the simulated Apple has accepted \(accepted) notifications instead of one")
            }
            Console.message("\nThe simulated Apple has accepted the notification for my-phone.")
            let used = try String(contentsOfFile: "\(dispatcher.directory)/apus.yaml", encoding: .utf8)
            try self.write(Self.start(from: used), to: path)
            Console.message(
                "\(path) is the configuration that it went by, as a start for yours: put in your keys, then apus config check --config \(path)"
            )
            guard self.isKept else { return }
            Console.message(
                """

                Everything keeps running until Ctrl-C, which removes it. To go on in another terminal:
                  export APUS_CONFIG=\(dispatcher.directory)/apus.yaml
                The HTTP API:  http://127.0.0.1:\(port)
                Web pages:     apus-console, then http://127.0.0.1:8190/
                """
            )
            for service in [registration, dispatcher, feedback] {
                Console.message("\(service.name): \(service.directory)/apus.yaml, and its log beside it")
            }
            Console.message("A service reads its file again within seconds after a change.")
            while true { try await Task.sleep(for: .milliseconds(500)) }
        }
    }

    /// Runs a command, shows what it says, and waits for its end.
    private func perform(_ command: [String], _ number: Int, _ cluster: LocalCluster) async throws {
        let directory = "\(cluster.folder)/command-\(number)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let program = try cluster.program("apus")
        let arguments = ["/usr/bin/env", "APUS_REDIS_URL=\(cluster.redisURL)", "XDG_CONFIG_HOME=\(directory)", program]
        let status = "\(directory)/status"
        let shell = ["/bin/sh", "-c", #""$@"; echo $? >"$0.new"; mv "$0.new" "$0""#, status]
        let process = try await WatchedProcess(shell + arguments + command.dropFirst(), directory: directory)
        let deadline = ContinuousClock.now + Self.patience
        while !FileManager.default.fileExists(atPath: status), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(5))
        }
        await process.end(keepingDirectory: true)
        let said = (try? String(contentsOfFile: "\(directory)/log", encoding: .utf8)) ?? ""
        Console.message(raw: said)
        let code = (try? String(contentsOfFile: status, encoding: .utf8))?.prefix { $0 != "\n" } ?? "no answer in time"
        guard code == "0" else { throw LocalClusterError("\(Self.line(command)) failed (\(code))") }
    }

    private func write(_ text: String, to path: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: URL(filePath: path))
        } catch {
            throw LocalClusterError("\(path) cannot be written: may you write to its folder, and is there room?")
        }
    }

    /// Returns a command as one types it.
    private static func line(_ words: [String]) -> String {
        words.map { $0.contains(" ") ? "\"\($0)\"" : $0 }.joined(separator: " ")
    }

    /// Returns a configuration to begin with, from the one that was used: what leads to the simulator is marked, and Redis is the default one.
    static func start(from used: String) -> String {
        let simulated = ["host:", "port:", "channels_url:", "ca_file:", "base_url:", "token_url:", "connect_url:"]
        let own = [
            "key_file:": "/etc/apus/AuthKey.p8", "service_account_file:": "/etc/apus/service-account.json",
        ]
        var lines = [
            "# Written by apus-lab quickstart. Put in your team, keys, topic and project; the lines that led to the simulator are",
            "# comments. apus config check --config FILE tells what is missing.",
        ]
        for line in used.split(separator: "\n") {
            let key = line.drop { $0 == " " }
            let space = line.prefix { $0 == " " }
            if line.hasPrefix("redis:") {
                lines.append("redis: {url: \"redis://127.0.0.1:6379\"}")
            } else if line.hasPrefix("admin:") || line.hasPrefix("event_loops:") || line.hasPrefix("drain_timeout:") {
                continue
            } else if simulated.contains(where: { key.hasPrefix($0) }) {
                lines.append("\(space)# \(key)")
            } else if let (name, value) = own.first(where: { key.hasPrefix($0.key) }) {
                lines.append("\(space)\(name) \(value)")
            } else {
                lines.append(String(line))
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
