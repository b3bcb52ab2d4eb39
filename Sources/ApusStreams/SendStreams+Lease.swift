package import ApusCore
package import ApusRedis
package import NIOCore

/// A rate that the whole fleet keeps together: a route's, or a send's.
package struct Limiter: Hashable, Sendable {
    /// Where its state lives.
    package let key: String
    /// The slot of the key.
    package let tag: HashTag
    /// How long it takes to reach the rate after a long quiet.
    package let rampMilliseconds: Int64
    /// When it is forgotten; nil: never, because an operator's word is kept there.
    package let forgetMilliseconds: Int64?

    /// How long a send's limiter outlives its last use.
    package static let paceRetentionMilliseconds: Int64 = 60_000

    /// The limiter of a send.
    package init(ofSend send: String, tag: HashTag) {
        self.key = StreamKeys(tag: tag).pace(send)
        self.tag = tag
        self.rampMilliseconds = 0
        self.forgetMilliseconds = Self.paceRetentionMilliseconds
    }

    /// The limiter of a route, by the keys of its shard.
    init(of route: RouteNumber, keys: StreamKeys, rampMilliseconds: Int64) {
        self.key = keys.route(route)
        self.tag = keys.tag
        self.rampMilliseconds = rampMilliseconds
        self.forgetMilliseconds = nil
    }
}

/// What a provider calls wrong with our set-up: nobody on the route can be reached before it is mended.
package struct RouteFault: Hashable, Sendable {
    /// Who finds out that it is mended.
    package enum Kind: String, Sendable {
        /// The topic, the project, or what was asked for: an operator, or whoever starts with another configuration.
        case setUp = "fault"
        /// The credential or its rights: dispatchers do, too. They ask the provider from time to time, without reaching a device.
        case credential
    }

    /// The provider's word.
    package var word: String
    /// Who finds out that it is mended.
    package var kind: Kind

    /// A fault; an empty word becomes "unknown".
    package init(_ kind: Kind, _ word: String) {
        self.word = word.isEmpty ? "unknown" : word
        self.kind = kind
    }
}

/// What a member of a limiter tells and asks.
package struct LeaseRequest: Hashable, Sendable {
    /// Permits that would be used now.
    package var use = 0
    /// Permits for the time until the next call.
    package var ahead = 0
    /// Permits in hand.
    package var held = 0
    /// Permits used since the last call.
    package var used = 0
    /// Refusals since the last call that meant the whole project.
    package var refusals = 0
    /// How long everybody is to stop for; 0: go on.
    package var cutMilliseconds: Int64 = 0
    /// What the provider calls wrong with our set-up: stops the route; nil: nothing.
    package var fault: RouteFault?
    /// A digest of the set-up that is sent with; empty: not told. A fault stops those alone who are set up like that.
    package var setUp = ""
    /// What the provider's own partner calls wrong, in its word: only noted, for operators; `partnerMended`: nothing any more; empty: no
    /// news.
    package var partnerFault = ""
    /// No provider has such a word.
    package static let partnerMended = "-"

    /// Asks for nothing.
    package init() {}
}

/// What a member of a limiter gets.
package struct Lease: Hashable, Sendable {
    /// Permits; nil: there is no limit.
    package var permits: Int?
    /// Whether an operator, the mass-failure guard, or a provider's word about our set-up has stopped the route.
    package var isPaused = false
    /// How long everybody is to stop for; 0: go on.
    package var cutMilliseconds: Int64 = 0
    /// The rate per second at this moment; nil: there is no limit.
    package var ratePerSecond: Int?
    /// What is left of the rate after refusals, 0 to 1.
    package var level = 1.0

    /// A lease.
    package init(permits: Int?) { self.permits = permits }
}

extension SendStreams {
    /// The limiter of a route.
    package func limiter(of route: RouteNumber, rampMilliseconds: Int64) -> Limiter {
        Limiter(of: route, keys: self.keys(ofRoute: route), rampMilliseconds: rampMilliseconds)
    }

    /// The shard where the state of a route lives.
    package func keys(ofRoute route: RouteNumber) -> StreamKeys {
        self.keys(shard: Int(route.value) % self.keyspace.queueShards)
    }

    /// Asks for permits and tells what was heard. One try: a lost answer costs permits, and the next call comes soon.
    ///
    /// - Parameters:
    ///   - ratePerSecond: of the whole fleet; nil: no limit. An operator's word comes before it.
    ///   - microseconds: the time, for tests; nil: Redis' own.
    package func lease(
        _ request: LeaseRequest,
        of limiter: Limiter,
        by member: String,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
        microseconds: Int64? = nil,
    ) -> EventLoopFuture<Lease> {
        let command = RedisCommand.call(
            "apus1_lease",
            keys: [limiter.key],
            arguments: [
                .text(member), .text(String(ratePerSecond ?? 0)), .integer(limiter.rampMilliseconds),
                .integer(request.use), .integer(request.ahead), .integer(request.held), .integer(request.used),
                .integer(request.refusals), .integer(request.cutMilliseconds),
                .integer(limiter.forgetMilliseconds ?? 0), .text(microseconds.map { String($0) } ?? ""),
                .text(request.fault?.word ?? ""), .text(request.partnerFault),
                .text(request.fault?.kind.rawValue ?? ""), .text(request.setUp),
            ],
        )
        let options = RedisClient.Options(patience: .zero)
        return self.client.send(command, on: limiter.tag, options: options, eventLoop: eventLoop).map { reply in
            let answer = reply.root
            var lease = Lease(permits: answer[0].number < 0 ? nil : Int(answer[0].number))
            lease.isPaused = answer[1].number == 1
            lease.cutMilliseconds = answer[2].number
            lease.ratePerSecond = answer[3].number < 0 ? nil : Int(answer[3].number)
            lease.level = Double(answer[4].number) / 1_000_000
            return lease
        }
    }

    /// What an operator may say of a route.
    package enum RouteOrder: Hashable, Sendable {
        /// Send nothing.
        case pause
        /// Send again.
        case resume
        /// Send that many per second, whatever the configuration says; nil: as many as can be.
        case rate(Double?)
        /// Send as the configuration says.
        case standardRate
    }

    /// Tells every dispatcher; each hears it within one beat of its leases.
    package func govern(_ route: RouteNumber, _ order: RouteOrder) async throws {
        let keys = self.keys(ofRoute: route)
        let arguments: [RedisArgument] =
            switch order {
            case .pause: [.text("pause")]
            case .resume: [.text("resume")]
            case .rate(let rate): [.text("rate"), .text(String(rate ?? 0))]
            case .standardRate: [.text("standard")]
            }
        _ = try await self.client.call(
            "apus1_govern",
            on: keys.tag,
            keys: [keys.route(route)],
            arguments: arguments,
        )
    }

    /// Lets a route go on that a dispatcher stopped because of our set-up: that is mended. Nobody else's word is touched.
    ///
    /// - Returns: whether it was stopped for that.
    package func mended(_ route: RouteNumber) async throws -> Bool {
        let keys = self.keys(ofRoute: route)
        let answer = try await self.client.call(
            "apus1_govern",
            on: keys.tag,
            keys: [keys.route(route)],
            arguments: [.text("mended")],
        ).root
        return answer.number == 1
    }

    /// How a route stands for the whole fleet.
    package struct RouteState: Hashable, Sendable {
        /// Who has stopped a route.
        package enum Stop: Hashable, Sendable {
            /// An operator.
            case byOperator
            /// The mass-failure guard.
            case byGuard
            /// A dispatcher, because the provider calls our set-up wrong.
            case byFault(RouteFault)
        }

        /// Who has stopped it; nil: it goes on.
        package var stop: Stop?
        /// What the provider's own partner (Apple, for FCM) calls wrong: whoever needs it waits, the others go on; nil: nothing.
        package var partnerFault: String?
        /// The digests of the set-ups for which it was stopped.
        package var refusedSetUps: Set<String> = []
        /// Whether nothing is sent.
        package var isPaused: Bool { self.stop != nil }
        /// Whether it was the guard.
        package var isPausedByGuard: Bool { self.stop == .byGuard }
        /// The rate that counts, per second: an operator's, else the configuration's as a dispatcher last told it; nil: none.
        package var ratePerSecond: Double?
        /// Whether that rate is an operator's.
        package var isOverridden = false
        /// As at the last lease.
        package var lease = Lease(permits: nil)
    }

    /// How a route stands; changes nothing.
    package func state(of route: RouteNumber) async throws -> RouteState {
        let keys = self.keys(ofRoute: route)
        let reply = try await self.client.call(
            "apus1_governed",
            on: keys.tag,
            keys: [keys.route(route)],
            readOnly: true,
        )
        let answer = reply.root
        var state = RouteState()
        switch answer[0].number {
        case 0: break
        case 2: state.stop = .byGuard
        case 3: state.stop = .byFault(RouteFault(.setUp, answer[5].text))
        case 4: state.stop = .byFault(RouteFault(.credential, answer[5].text))
        default: state.stop = .byOperator
        }
        if !answer[6].text.isEmpty { state.partnerFault = answer[6].text }
        state.refusedSetUps = Set(answer[7].text.split(separator: ",").map(String.init))
        let override = Double(answer[1].text)
        let rate = override ?? Double(answer[2].text) ?? 0
        state.isOverridden = override != nil
        state.ratePerSecond = rate > 0 ? rate : nil
        state.lease.isPaused = state.isPaused
        state.lease.cutMilliseconds = answer[3].number
        state.lease.level = Double(answer[4].number) / 1_000_000
        return state
    }
}
