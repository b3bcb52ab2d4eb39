internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusPublisher
internal import ApusRedis
internal import ApusSimulator
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal
internal import ApusTestKit
internal import Synchronization

/// Runs the demo in an environment that is ready.
struct DemoRunner {
    /// The longest time of one send.
    private static let sendPatience = Duration.seconds(1_800)
    /// The longest time for pruning and finishing after the last send.
    private static let settlePatience = Duration.seconds(120)
    private static let lookupBatch = 1_000

    let environment: DemoEnvironment
    let publisher: Publisher
    let options: DemoOptions
    let population: DemoPopulation
    let app: AppID
    let control: SimulatorControl
    let clock = SystemClock()

    private var report = DemoReport()
    private var audit: DeliveryAudit
    /// The positions of devices that are still in the store.
    private var registered: Set<Int>

    init(_ environment: DemoEnvironment, _ publisher: Publisher, _ options: DemoOptions) throws {
        self.environment = environment
        self.publisher = publisher
        self.options = options
        self.population = DemoPopulation(
            count: options.devices,
            seed: options.seed,
            dead: DeadShare(options.deadShare, seed: options.seed),
            hasBrowsers: !options.isFast,
        )
        self.app = try AppID(LocalCluster.app)
        self.control = SimulatorControl(host: "127.0.0.1", port: environment.controlPort)
        self.audit = DeliveryAudit(self.population)
        self.registered = Set(self.population.devices.indices)
    }

    mutating func run() async throws -> DemoReport {
        self.report.devices = self.options.devices
        self.report.isStrict = !self.options.isFast
        #if DEBUG
        self.report.isOptimised = false
        #endif
        let dead = self.population.dead
        self.report.dead = dead.count
        Demo.step("Registering \(NumberText.grouped(self.options.devices)) devices over HTTP")
        self.report.registrationSeconds = try await DemoRegistrar(
            environment: self.environment,
            population: self.population
        )
        .run(ProgressDisplay(label: Self.label("devices")))

        Demo.step("Sending")
        try await self.sendToUser()
        try await self.sendToTopic("news")
        if self.options.masters > 1 {
            try await self.sendWhileMasterDies()
            try await self.sendWhileMasterJoins()
        } else {
            try await self.sendToEveryone()
        }
        try await self.sendNonsense()

        Demo.step("Waiting until dead tokens are pruned and nothing is left in the streams")
        try await self.waitForPruning(of: Set(dead))
        try await self.measureLatency()
        try await self.settle()

        Demo.step("Comparing with the simulator's ledger")
        try await self.compare()
        return self.report
    }

    // MARK: Sends

    private mutating func sendToUser() async throws {
        guard let user = self.population.livingUser else {
            throw CommandFailure("every user has a dead token: take more devices")
        }
        let (publication, status) = try await self.send(
            "one user",
            .users([user.name]),
            title: "Your code is 493 021",
            lane: .express,
        )
        self.audit.expect(publication.send, to: user.devices)
        self.add("one user", publication, status)
    }

    private mutating func sendToTopic(_ topic: String) async throws {
        let audience = self.population.subscribers(of: topic)
        let name = "topic \(topic)"
        let (publication, status) = try await self.send(name, .topic(topic), title: "Swifts are back")
        self.audit.expect(publication.send, to: audience)
        self.add(name, publication, status)
        // Then it is known who everyone is.
        try await self.waitForPruning(of: Set(audience.filter { self.population.devices[$0].isDead }))
    }

    private mutating func sendToEveryone(_ name: String = "everyone") async throws {
        let audience = self.registered
        let before = ProcessStatistics.processorSeconds(of: self.environment.dispatcherID)
        let (publication, status) = try await self.send(name, .everyone([]), title: "Hello, all of you")
        let after = ProcessStatistics.processorSeconds(of: self.environment.dispatcherID)
        self.audit.expect(publication.send, to: audience)
        self.add(name, publication, status)
        let accepted = Double(max(1, status.total(.accepted)))
        if let before, let after { self.report.dispatcherSecondsPerMillion = (after - before) / accepted * 1e6 }
    }

    /// Sends to everyone, and kills one Redis master in the middle; its replica takes over, and it comes back as a replica.
    private mutating func sendWhileMasterDies() async throws {
        guard let redis = self.environment.cluster.redisCluster else { return }
        let (ledger, before) = (self.environment.cluster.simulator.ledger, self.acceptedSoFar)
        let share = UInt64(before) + UInt64(self.registered.count / 10)
        let home = self.environment.cluster.installation.keyspace.tag(shard: 0).slot
        async let failover = Self.replaceMaster(of: home, in: redis) {
            UInt64(ledger.snapshot.timeline.accepted(from: 0)) >= share
        }
        try await self.sendToEveryone()
        let seconds = try await failover
        // Then it is known who everyone is.
        try await self.waitForPruning(of: Set(self.population.dead))
        // Notifications whose outcomes were not written, or not copied to the replica, may go out again.
        let timeline = ledger.snapshot.timeline
        let span = AcceptanceTimeline.bucketNanoseconds
        let peak =
            timeline.buckets.indices.map { index in
                let start = timeline.start + Int64(index) * span
                return timeline.accepted(from: start, to: start + span)
            }.max() ?? 0
        self.report.repeatedMax += Provider.allCases.count * DemoEnvironment.window * Machine.current.cores + peak
        let time = NumberText.decimal(seconds, 1)
        self.report.redis.append(
            "a master was killed during the send to everyone, and its replica took over after \(time) s"
        )
    }

    /// Waits until a send is under way, kills the master of a slot, and waits until its replica has taken over. Returns the seconds.
    private static func replaceMaster(
        of slot: Int,
        in redis: RedisCluster,
        when isUnderWay: @Sendable () -> Bool,
    ) async throws -> Double {
        let victim = try await redis.owner(ofSlot: slot)
        let replica = try await redis.replica(of: victim)
        try await eventually("the send is under way", timeout: Self.sendPatience) { isUnderWay() }
        let start = ContinuousClock.now
        await victim.kill()
        try await redis.untilMaster(replica)
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        try await victim.restart()
        return seconds
    }

    /// Sends to everyone while another master joins Redis and gets its share of the slots.
    private mutating func sendWhileMasterJoins() async throws {
        let cluster = self.environment.cluster
        guard let redis = cluster.redisCluster, let spare = redis.spares.first else { return }
        async let growth: (moves: Int, seconds: Double) = {
            let start = ContinuousClock.now
            try await redis.join(spare)
            try await cluster.initializeAgain()
            let moves = try await cluster.spreadSlots().moves
            return (moves, (ContinuousClock.now - start) / .seconds(1))
        }()
        try await self.sendToEveryone("everyone again")
        let (moves, seconds) = try await growth
        let time = NumberText.decimal(seconds, 1)
        self.report.redis.append(
            "a master joined and got \(moves) slots with data within \(time) s, during the next send"
        )
    }

    private var acceptedSoFar: Int { self.environment.cluster.simulator.ledger.snapshot.timeline.accepted(from: 0) }

    private mutating func sendNonsense() async throws {
        // Fewer bytes than a text may have, and with its title more than any provider takes.
        let body = String(repeating: "x", count: 4_096)
        let (publication, status) = try await self.send(
            "bad input",
            .topic("news"),
            title: "Nobody reads this",
            body: body,
        )
        self.audit.expect(publication.send, to: [])
        self.add("bad input", publication, status)
        guard case .refused = status.phase else {
            throw CommandFailure("a text that is too large was not refused but \(status.phase.name)")
        }
    }

    private func send(
        _ name: String,
        _ target: Target,
        title: String,
        body: String = "Sent by the demo of Apus",
        lane: Lane = .bulk,
    ) async throws -> (Publication, SendStatus) {
        var notification = Notification()
        notification.title = title
        notification.body = body
        notification.data = ["demo": name]
        let command = SendCommand(app: self.app.text, target: target, notification: notification)
        let publication = try await self.publisher.publish(command, lane: lane)
        var observer = SendObserver(self.publisher, publication)
        let (status, _) = try await observer.follow(
            within: Self.sendPatience,
            display: ProgressDisplay(label: Self.label(name)),
        )
        try self.environment.checkIsRunning()
        guard status.isOver else {
            throw CommandFailure(
                "the send \(publication.send) is not over: \(ProgressLine.text(status, rate: nil))"
            )
        }
        return (publication, status)
    }

    private mutating func add(_ name: String, _ publication: Publication, _ status: SendStatus) {
        self.report.sends.append(
            DemoReport.SendRow(
                name: name,
                status: status,
                publishedAtNanoseconds: publication.publishedAtNanoseconds,
            )
        )
    }

    private static func label(_ name: String) -> String {
        name + String(repeating: " ", count: max(0, 12 - name.count))
    }

    // MARK: Latency

    /// Measures single sends by the express lane, to one living device each, on an idle machine.
    private mutating func measureLatency() async throws {
        let living = self.population.devices.indices.filter { !self.population.devices[$0].isDead }
        guard self.options.latencySends > 0, !living.isEmpty else { return }
        let measured = self.options.latencySends
        let plan = LoadPlan(ratePerSecond: self.options.latencyRate, warmUp: measured / 10, measured: measured)
        Demo.step("Measuring \(NumberText.grouped(measured)) single sends")
        let (app, devices) = (self.app.text, self.population.devices)
        func recipient(_ index: Int) -> Int { living[index % living.count] }
        let recipients = (0..<plan.count).map(recipient)
        let start = self.clock.nanosecondsSince1970()
        let test = OpenLoopPublisher(plan, publisher: self.publisher, lane: .express, clock: self.clock) { index in
            var notification = Notification()
            notification.title = "Single send \(index)"
            let target = Target.devices([devices[recipients[index]].id])
            var command = SendCommand(app: app, target: target, notification: notification)
            command.id = "latency-\(index)"
            return command
        }
        var display = ProgressDisplay(label: Self.label("single sends"))
        let publications = try await test.run { started in
            let time = Double(self.clock.nanosecondsSince1970() - start) / 1e9
            display.show("\(NumberText.grouped(started))/\(NumberText.grouped(plan.count))", at: time)
        }
        display.finish("\(NumberText.grouped(plan.count))/\(NumberText.grouped(plan.count))")
        if let problem = publications.compactMap(\.problem).first { throw CommandFailure(problem) }
        for publication in publications {
            self.audit.expect(publication.send, to: [recipients[publication.index]])
        }
        let accepted = try await self.acceptances(of: plan.count, since: start)
        self.report.latencies = publications.filter { plan.isMeasured($0.index) }
            .compactMap { publication in accepted[publication.send].map { $0 - publication.publishedNanoseconds } }
            .map { max(0, $0) }
            .sorted()
    }

    /// Returns the time at which each send was first accepted, as soon as all were.
    private func acceptances(of count: Int, since start: Int64) async throws -> [String: Int64] {
        let deadline = ContinuousClock.now + Self.settlePatience
        while true {
            let accepted = Mutex<[String: Int64]>([:])
            try await self.control.readLedger(since: start) { line in
                guard let send = line.send, line.isAccepted else { return }
                accepted.withLock { $0[send] = min($0[send] ?? .max, line.timeNanoseconds) }
            }
            let found = accepted.withLock { $0 }
            if found.count >= count || ContinuousClock.now >= deadline { return found }
            try self.environment.checkIsRunning()
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    // MARK: Checks after the run

    /// Waits until devices are gone from the store; afterwards they count as unregistered.
    private mutating func waitForPruning(of dead: Set<Int>) async throws {
        let deadline = ContinuousClock.now + Self.settlePatience
        var waiting = dead.intersection(self.registered)
        var display = ProgressDisplay(label: Self.label("pruned"))
        let start = ContinuousClock.now
        while !waiting.isEmpty {
            waiting = try await self.present(waiting)
            let line = "\(NumberText.grouped(dead.count - waiting.count))/\(NumberText.grouped(dead.count))"
            display.show(line, at: (ContinuousClock.now - start) / .seconds(1))
            guard !waiting.isEmpty else { break }
            try self.environment.checkIsRunning()
            // Devices that are not pruned by then show in the report.
            guard ContinuousClock.now < deadline else { break }
            try await Task.sleep(for: .milliseconds(100))
        }
        let gone = dead.count - waiting.count
        display.finish("\(NumberText.grouped(gone))/\(NumberText.grouped(dead.count))")
        self.registered.subtract(dead.subtracting(waiting))
    }

    /// Returns those of the devices that are in the store.
    private func present(_ positions: some Collection<Int>) async throws -> Set<Int> {
        var present: Set<Int> = []
        var rest = Array(positions)[...]
        while !rest.isEmpty {
            let batch = rest.prefix(Self.lookupBatch)
            rest = rest.dropFirst(batch.count)
            let ids = try batch.map { try DeviceID(self.population.devices[$0].id) }
            let found = try await self.publisher.installation.store.resolve(self.app, devices: ids)
            for (position, device) in zip(batch, found) where device != nil { present.insert(position) }
        }
        return present
    }

    /// Waits until no stream has any entry left except the dead letters.
    private mutating func settle() async throws {
        let deadline = ContinuousClock.now + Self.settlePatience
        let survey = StreamBacklog(self.publisher.installation.streams)
        repeat {
            self.report.leftInStreams = try await survey.rows().filter { $0.name != "dead" }
                .reduce(0) { $0 + $1.backlog + ($1.pending ?? 0) }
            guard self.report.leftInStreams > 0 else { return }
            try self.environment.checkIsRunning()
            try await Task.sleep(for: .milliseconds(100))
        } while ContinuousClock.now < deadline
    }

    private mutating func compare() async throws {
        let present = try await self.present(self.population.devices.indices)
        let gone = Set(self.population.devices.indices).subtracting(present)
        self.report.pruned = gone.count
        self.report.prunedAlive = gone.count { !self.population.devices[$0].isDead }
        let audit = Mutex(self.audit)
        try await self.control.readLedger { line in audit.withLock { $0.note(line) } }
        self.report.audit = audit.withLock { $0.finding }
        for index in self.report.sends.indices {
            let send = self.report.sends[index].send
            guard let counts = audit.withLock({ $0.counts(of: send) }) else { continue }
            self.report.sends[index].audience = counts.audience
            self.report.sends[index].acceptedByProviders = counts.accepted
        }
    }
}
