import ApusCore
import ApusMessages
import Testing

/// No bytes crash a decoder, make it take more memory than it may, or give a value that cannot travel on.
@Suite struct FuzzTests {
    private static let iterations = 25_000

    /// Mutates the samples; what is taken must come back from its own bytes.
    private func fuzz<M: Message>(_ samples: [M]) throws {
        let corpus = try samples.map { sample throws in try sample.encode() }
        var generator = FuzzSeed.generator()
        var arena = MessageArena()
        var taken = 0
        for iteration in 0..<Self.iterations {
            let bytes = Mutation.mutate(corpus, &generator)
            let value: M
            do throws(MessageError) {
                value = try M.decode(bytes, in: &arena)
            } catch {
                let used = arena.used
                let budget = MessageArena.budget(forBytes: bytes.count)
                if used > budget { Issue.record("seed \(FuzzSeed.value), iteration \(iteration): took \(used) bytes") }
                continue
            }
            taken += 1
            let again = try M.decode(try value.encode())
            if again != value { Issue.record("seed \(FuzzSeed.value), iteration \(iteration): changed: \(bytes)") }
        }
        #expect(taken > Self.iterations / 50, "seed \(FuzzSeed.value): the mutations break everything")
    }

    @Test func sendCommands() throws {
        try self.fuzz(
            Samples.targets.map { SendCommand(app: "shop", target: $0, notification: Notification()) }
                + [Samples.sendCommand]
        )
    }

    @Test func workUnits() throws {
        try self.fuzz(
            Samples.recipients.map { WorkUnit(send: SendKey(app: "a", id: "s"), route: RouteNumber(1), recipients: $0) }
        )
    }

    @Test func outcomeBatches() throws { try self.fuzz([Samples.outcomeBatch]) }

    @Test func deviceRegistrations() throws { try self.fuzz([Samples.deviceRegistration]) }

    @Test func registrationCommands() throws {
        try self.fuzz(Samples.actions.map { RegistrationCommand(app: "shop", action: $0) })
    }

    @Test func sendReceipts() throws { try self.fuzz([Samples.sendReceipt]) }

    @Test func clientEvents() throws { try self.fuzz([Samples.clientEvent]) }

    @Test func deadLetters() throws { try self.fuzz([Samples.deadLetter]) }
}
