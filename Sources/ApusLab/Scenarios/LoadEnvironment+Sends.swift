internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams

extension LoadEnvironment {
    /// The nanoseconds between the order to begin and the first send, so that both lanes begin together.
    private static let runUp: Int64 = 100_000_000

    /// Sends at the planned rates, waits until all work is done, and compares with the ledgers of the simulator and the services.
    func send(_ order: ScenarioOptions, number: Int, _ result: inout LoadResult) async throws -> LoadSpan {
        let start = self.cluster.clock.nanosecondsSince1970() + Self.runUp
        let express = order.scenario == .fanout ? nil : Load(order.plan, "\(number)-express-", start: start)
        let topicRate = order.scenario == .mixed ? order.bulkRatePerSecond : order.ratePerSecond
        let topic =
            order.scenario == .transactional || order.scenario == .users
            ? nil : Load(order.topicPlan(notificationsPerSecond: topicRate), "\(number)-topic-", start: start)

        async let single = self.publish(express, .express) { index in
            let first = self.recipients(of: index, order).lowerBound
            return order.scenario == .users
                ? .users([Self.user(ofDevice: first, order.scenario)]) : .devices([self.devices[first].id])
        }
        async let wide = self.publish(topic, .bulk) { _ in .topic(Self.topic) }
        let publications = [try await single, try await wide]
        self.note(publications.flatMap(\.self), &result)
        if try await !self.waitUntilDone(within: order.patienceSeconds) {
            result.complaints.append("something is left to do \(order.patienceSeconds) s after the last was published")
        }
        let done = self.cluster.clock.nanosecondsSince1970()

        let ledgers = self.compare(
            [
                express.map { load in
                    load.sends { index in self.recipients(of: index, order) }
                } ?? [],
                topic.map { load in load.sends { _ in self.devices.indices } } ?? [],
            ],
            prefixes: [express?.prefix, topic?.prefix]
        )
        for ledger in ledgers { result.add(ledger) }
        if let topic { try await self.compareOwnLedgers(topic, &result) }
        let loads = [express, topic]
        let main = order.scenario == .fanout ? 1 : 0
        result.latency = ledgers[main].latency
        result.ratePerSecond = (loads[main]?.rate(ledgers[main]) ?? 0) / Double(order.scenario.devicesPerSend)
        if order.scenario == .mixed, let topic {
            result.bulk = (topic.rate(ledgers[1]), ledgers[1].latency)
        }
        let planned = loads.compactMap { $0?.span }
        let begin = planned.map(\.lowerBound).min() ?? start
        let due = planned.map(\.upperBound).max() ?? start
        return LoadSpan(begin: begin, end: max(due, ledgers.compactMap(\.span?.upperBound).max() ?? due), done: done)
    }

    /// The sends of one kind.
    private struct Load: Sendable {
        let plan: LoadPlan
        let prefix: String
        let start: Int64

        init(_ plan: LoadPlan, _ prefix: String, start: Int64) {
            self.plan = plan
            self.prefix = prefix
            self.start = start
        }

        /// The span from the first measured scheduled time to the one after the last.
        var span: ClosedRange<Int64> {
            (self.start + self.plan.due(self.plan.warmUp))...(self.start + self.plan.due(self.plan.count))
        }

        func sends(_ audience: (Int) -> Range<Int>) -> [LoadLedger.Send] {
            (0..<self.plan.count).map { index in
                LoadLedger.Send(
                    due: self.start + self.plan.due(index),
                    audience: audience(index),
                    isMeasured: self.plan.isMeasured(index),
                )
            }
        }

        func rate(_ ledger: LoadLedger) -> Double {
            let seconds = Double(self.plan.measured) / self.plan.ratePerSecond
            return LoadValidation.rate(ledger.latency.count, planned: seconds, span: ledger.span)
        }
    }

    /// Returns the positions of the devices that an express send goes to.
    private func recipients(of index: Int, _ order: ScenarioOptions) -> Range<Int> {
        var generator = SeededGenerator(seed: order.seed &+ UInt64(index) &* 0x9e37_79b9_7f4a_7c15)
        let count = order.scenario.devicesPerSend
        let first = Int(generator.next() % UInt64(self.devices.count / count)) * count
        return first..<(first + count)
    }

    private func publish(
        _ load: Load?,
        _ lane: Lane,
        _ target: @escaping @Sendable (Int) -> Target,
    ) async throws -> [OpenLoopPublisher.Publication] {
        guard let load else { return [] }
        let test = OpenLoopPublisher(load.plan, publisher: self.publisher, lane: lane, clock: self.cluster.clock) {
            index in
            self.cluster.command(target(index), id: "\(load.prefix)\(index)")
        }
        return try await test.run(from: load.start)
    }

    private func note(_ publications: [OpenLoopPublisher.Publication], _ result: inout LoadResult) {
        for publication in publications {
            result.lateness.record(nanoseconds: publication.publishedNanoseconds - publication.dueNanoseconds)
        }
        let problems = publications.compactMap(\.problem)
        if let first = problems.first {
            result.complaints.append("\(problems.count) sends could not be published (\(first))")
        }
    }

    /// Reads the simulator's ledger once, for all kinds at the same time.
    private func compare(_ sends: [[LoadLedger.Send]], prefixes: [String?]) -> [LoadLedger] {
        let digests = self.devices.map(\.digest)
        var ledgers = sends.map { LoadLedger($0, devices: digests) }
        // A send's number combines its position in its kind and, in the lowest digit, the kind.
        func number(of id: String) -> Int? {
            for (kind, prefix) in prefixes.enumerated() {
                guard let prefix, id.hasPrefix(prefix), let index = Int(id.dropFirst(prefix.count)),
                    sends[kind].indices.contains(index)
                else { continue }
                return index * prefixes.count + kind
            }
            return nil
        }
        let kinds = prefixes.count
        self.cluster.simulator.ledger.snapshot.visitAccepted(number) { number, token, time in
            ledgers[number % kinds].note(number / kinds, token, at: time)
        }
        return ledgers
    }

    /// Checks that the services' ledger of a topic send agrees with the simulator's.
    private func compareOwnLedgers(_ topic: Load, _ result: inout LoadResult) async throws {
        for index in 0..<topic.plan.count {
            let send = "\(topic.prefix)\(index)"
            let ledger = try await self.cluster.ledger(of: send)
            guard let ledger, ledger.state == .done, ledger.total(.accepted) == UInt64(self.devices.count) else {
                let counted = ledger.map { "\($0.total(.accepted)) accepted" } ?? "nothing"
                result.complaints.append(
                    "of \(send) to \(self.devices.count) devices the services' ledger says \(counted)"
                )
                return
            }
        }
    }
}

extension LoadResult {
    /// Adds the results from the simulator's ledger for one kind of sends.
    fileprivate mutating func add(_ ledger: LoadLedger) {
        self.planned += ledger.planned
        self.accepted += ledger.accepted
        self.lost += ledger.lost
        self.repeated += ledger.repeated
        self.strangers += ledger.strangers
        self.measured += ledger.latency.count
    }
}
