internal import ApusCore
internal import ApusMessages
internal import ApusPublisher
internal import ApusTestKit
internal import FoundationEssentials
internal import NIOPosix

extension Benchmark {
    /// The sends that the console lists.
    private static let listedSends = 10_000
    /// The number of times that the page is asked for.
    private static let pages = 100
    /// The publications that are under way at once.
    private static let publications = 50

    static let listing = Benchmark(
        "listing",
        "Time of the console's list of sends while 10,000 are listed.",
        figure: "page_p50_ms",
        bar: 100,
    ) { run in
        try await LocalCluster.with { cluster in
            _ = try await cluster.startDispatcher()
            let feedback = try await cluster.startFeedback()
            run.say("publishing \(Self.listedSends) sends")
            let publisher = try await Publisher(
                redis: cluster.redisURL,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            )
            do {
                try await Self.publish(publisher)
                await publisher.close()
            } catch {
                await publisher.close()
                throw error
            }
            while try await !cluster.unfinishedEntries().isEmpty { try await Task.sleep(for: .milliseconds(100)) }
            let times = try await Self.times(of: cluster, configuredBy: feedback)
            try await cluster.terminate()
            func milliseconds(_ share: Double) -> Double { times[Int(Double(times.count - 1) * share)] }
            return [
                "page_p50_ms": milliseconds(0.5), "page_p90_ms": milliseconds(0.9), "page_max_ms": milliseconds(1),
            ]
        }
    }

    private static func publish(_ publisher: Publisher) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<Self.listedSends {
                if number >= Self.publications { try await group.next() }
                group.addTask {
                    var notification = Notification()
                    notification.title = "Number \(number)"
                    let command = SendCommand(
                        app: LocalCluster.app,
                        target: .topic("nobody"),
                        notification: notification
                    )
                    _ = try await publisher.publish(command)
                }
            }
            try await group.waitForAll()
        }
    }

    /// Starts a console, and returns the times of its page in milliseconds, sorted.
    private static func times(of cluster: LocalCluster, configuredBy service: ServiceProcess) async throws -> [Double] {
        let folder = "\(cluster.folder)/console"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let portFile = "\(folder)/port"
        let console = try await WatchedProcess(
            [
                try cluster.program("apus-console"), "--config", "\(service.directory)/apus.yaml", "--listen",
                "127.0.0.1:0", "--port-file", portFile,
            ],
            directory: folder
        )
        let deadline = ContinuousClock.now + ServiceProcess.patience
        while ServiceProcess.port(in: portFile) == 0 {
            guard ContinuousClock.now < deadline, console.isRunning else {
                throw LocalClusterError("the console has not started")
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: ServiceProcess.port(in: portFile),
            on: MultiThreadedEventLoopGroup.singleton,
        )
        var times: [Double] = []
        for _ in 0..<Self.pages {
            let start = ContinuousClock.now
            let answer = try await connection.send(HTTPClientRequest("GET", "/apps/\(LocalCluster.app)/sends"))
            times.append((ContinuousClock.now - start) / .milliseconds(1))
            guard answer.status == 200, answer.body.count > 10_000 else {
                throw LocalClusterError("the console has answered \(answer.status) with \(answer.body.count) bytes")
            }
        }
        await connection.close()
        await console.end(keepingDirectory: false)
        return times.sorted()
    }
}
