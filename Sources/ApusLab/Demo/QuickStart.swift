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

    /// The app that is added while everything runs.
    static let secondApp = "shop"

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
        let running = "\(self.folder)/running.yaml"
        try self.makeFolder(for: running)
        try? FileManager.default.removeItem(atPath: running)
        defer { try? FileManager.default.removeItem(atPath: running) }
        let port = try FreePort.find()
        try await LocalCluster.with(Self.configuration(sharedFile: running)) { cluster in
            for name in ["registration", "dispatcher", "feedback"] {
                let settings = name == "registration" ? ["listen": "127.0.0.1:\(port)"] : [:]
                _ = try await cluster.start(name, settings, missing: [Self.secondApp])
            }
            for (number, command) in Self.commands.enumerated() {
                Console.message("\n" + Console.bold("$ " + Self.line(command)))
                try await self.perform(command, number, cluster, running)
            }
            let accepted = cluster.simulator.ledger.snapshot.accepted.values.reduce(0, +)
            guard accepted == 1 else {
                throw LocalClusterError("the simulated Apple has accepted \(accepted) notifications instead of one")
            }
            Console.message("\nThe simulated Apple has accepted the notification for my-phone.")
            let used = try String(contentsOfFile: running, encoding: .utf8)
            try self.write(Self.start(from: used), to: path)
            Console.message(
                """
                \(path) is the configuration of the three services, as a start for yours: put in your keys, then
                  \(try cluster.program("apus")) config check --config \(path)
                """
            )
            guard self.isKept else {
                return Console.message("To go on with what has just run, start it with --keep.")
            }
            Console.message(Self.outlook(of: cluster, running, port))
            while true { try await Task.sleep(for: .milliseconds(500)) }
        }
    }

    /// Returns the configuration of what runs: the sizes that `apus init` lays out, a Redis as it is meant to be, and two apps.
    private static func configuration(sharedFile: String) -> LocalClusterConfiguration {
        var configuration = LocalClusterConfiguration()
        configuration.keyspace = Keyspace()
        configuration.sharedFile = sharedFile
        configuration.redis.settings["appendonly"] = "yes"
        configuration.redis.settings["maxmemory"] = "256mb"
        configuration.simulator.apps = [
            .demo, SimulatedApp(name: Self.secondApp, bundleID: "example.apus.shop", projectID: "apus-shop"),
        ]
        return configuration
    }

    /// Returns what one can go on with while everything runs.
    private static func outlook(of cluster: LocalCluster, _ running: String, _ port: Int) -> String {
        let services = cluster.running.map { "  \($0.name): \($0.directory)/log" }.joined(separator: "\n")
        return """

            Everything keeps running until Ctrl-C, which removes it. To go on in another terminal:
              \(cluster.programs.exportOfPath)
              export APUS_CONFIG="\(URL(filePath: running).path)"

            What the simulated providers received: curl -s \(cluster.simulator.addresses.controlURL ?? "")/ledger
            The HTTP API, with the key above:      curl -s -H "Authorization: Bearer KEY" http://127.0.0.1:\(port)/v1/apps/demo/sends
            Web pages:                             apus-console, then http://127.0.0.1:8190/
            Logs:
            \(services)

            The three services share \(running) and read it again within seconds after a change. For a second app, whose keys the
            simulator knows already, add these lines to its end, and then create a key, put a device and send as above, with --app \(Self.secondApp):

            \(cluster.section(of: Self.secondApp) ?? "")
            """
    }

    /// Runs a command with the configuration of what runs, and no other variable of Apus, shows what it says, and waits for its end.
    private func perform(
        _ command: [String],
        _ number: Int,
        _ cluster: LocalCluster,
        _ running: String
    ) async throws {
        let directory = "\(cluster.folder)/command-\(number)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let program = try cluster.program("apus")
        let own = ["APUS_CONFIG=\(URL(filePath: running).path)", "XDG_CONFIG_HOME=\(directory)"]
        let arguments = ["/usr/bin/env"] + ServiceProcess.unset + own + [program]
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

    private func makeFolder(for path: String) throws {
        try Self.writing(path) {
            try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
        }
    }

    private func write(_ text: String, to path: String) throws {
        try Self.writing(path) { try Data(text.utf8).write(to: URL(filePath: path)) }
    }

    private static func writing(_ path: String, _ write: () throws -> Void) throws {
        do {
            try write()
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
        let left = [
            "event_loops:", "drain_timeout:", "registration:", "listen:", "rate_per_second:", "rate_per_minute:",
            "ramp:",
        ]
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
            } else if left.contains(where: { key.hasPrefix($0) }) {
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
