/// The connections of a modelled server: bytes of commands in, bytes of replies out, time as an argument.
///
/// It knows what belongs to a connection rather than to the keys: reads that wait, `CLIENT`, `WAIT` and transactions. A client that waits
/// is read no further until it is answered, as Redis does.
package final class ModelServer {
    /// The server's number of a connection.
    package struct ClientID: Hashable, Comparable, Sendable {
        let number: Int64

        package static func < (one: ClientID, other: ClientID) -> Bool { one.number < other.number }
    }

    /// Bytes for a client.
    package struct Output {
        /// The receiver.
        package let client: ClientID
        /// The replies.
        package var bytes: Bytes
        /// True when the connection is closed after the bytes.
        package var closes = false
    }

    /// A state in which a server refuses what clients ask for.
    package enum Refusal: Sendable {
        /// It reads its data after a start.
        case loading
        /// It is a replica whose master is away, and `replica-serve-stale-data` is off.
        case masterDown
        /// It runs a script for too long; waits do not end meanwhile.
        case busy

        fileprivate var error: String {
            switch self {
            case .loading: "LOADING Redis is loading the dataset in memory"
            case .masterDown: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
            case .busy: "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
        }

        /// Returns true for a command that is performed all the same.
        fileprivate func allows(_ name: String) -> Bool {
            switch self {
            case .loading, .masterDown: ["AUTH", "CLIENT", "CONFIG", "INFO", "MULTI", "DISCARD", "ROLE"].contains(name)
            case .busy: ["AUTH", "MULTI", "DISCARD"].contains(name)
            }
        }
    }

    private enum Waiting {
        case read(StreamRead, [Bytes])
        case replicas(Int64)
    }

    private final class Client {
        var parser = RequestParser()
        var name: Bytes = []
        /// The read that the client waits for, its end in µs (nil: none), and the client's turn among those that wait.
        var waiting: (cause: Waiting, deadline: Int64?, turn: Int)?
        /// The commands since `MULTI`.
        var transaction: [[Bytes]]?
        var transactionFailed = false
        /// The server's writes after the last one of this client, for `WAIT`.
        var written = 0
    }

    /// The keys and the functions.
    package let model: RedisModel
    /// The state in which all commands but a few are refused; nil when none is.
    package var refusal: Refusal?
    /// The replica, or the file on disk; nil: `WAIT` answers as the model has it set.
    package private(set) var copy: ModelCopy?
    private var clients: [ClientID: Client] = [:]
    private var outputs: [ClientID: Output] = [:]
    private var nextNumber: Int64 = 1
    private var turns = 0
    /// The model's changes that those who wait have seen.
    private var seenChanges = 0

    /// Creates a server without connections.
    package init(_ model: RedisModel) { self.model = model }

    /// The time at which the first wait ends or the copy gets something, in µs; nil when neither has a time.
    package var nextDeadline: Int64? {
        guard self.refusal != .busy else { return nil }
        var first = self.copy?.nextDeadline
        for client in self.clients.values {
            guard let deadline = client.waiting?.deadline else { continue }
            first = min(first ?? deadline, deadline)
        }
        return first
    }

    /// The number of clients that wait.
    package var waitingCount: Int { self.clients.values.count { $0.waiting != nil } }

    /// Accepts a connection.
    package func connect() -> ClientID {
        defer { self.nextNumber += 1 }
        let client = ClientID(number: self.nextNumber)
        self.clients[client] = Client()
        return client
    }

    /// Forgets a connection that is gone.
    package func disconnect(_ client: ClientID) { self.clients[client] = nil }

    /// Takes a client's bytes; returns what is to be sent, to that client and to those who waited for it.
    package func receive(_ bytes: some Sequence<UInt8>, from client: ClientID, now: Int64) -> [Output] {
        self.clients[client]?.parser.append(bytes)
        self.serve(client, now: now)
        self.follow(now)
        return self.takeOutputs()
    }

    // MARK: Copies

    /// Gives the server a replica or a file on disk, which has everything at once.
    ///
    /// - Parameter lag: the time, in µs, from a write until the copy has it.
    package func attach(lag: Int64, isReplica: Bool) {
        self.copy = ModelCopy(of: self.model, lag: lag, isReplica: isReplica)
        self.model.replicas = isReplica ? 1 : 0
    }

    /// Silences the copy, or lets it follow again.
    package func silenceCopy(_ isSilent: Bool) { self.copy?.isSilent = isSilent }

    /// Puts a server with the keys of the copy in the place of this one: without its last writes, without a replica, with another identity, and
    /// without connections.
    ///
    /// - Returns: the number of writes that are kept.
    package func failOver(runID: String) -> Int {
        guard let copy = self.copy else { preconditionFailure("a failover needs a copy of the keys") }
        self.copy = nil
        self.model.database = copy.database
        self.model.deleteKeysOfOthers()
        self.model.runID = runID
        self.model.replicas = 0
        self.model.isReplica = false
        self.model.noteChange()
        self.refusal = nil
        self.clients = [:]
        self.outputs = [:]
        return copy.writes
    }

    /// Makes the server call itself a replica, or a master again. At the former, clients that wait are told with the next output.
    package func demote(_ isReplica: Bool) {
        self.model.isReplica = isReplica
        guard isReplica else { return }
        for (client, _) in self.waitingClients(where: { _ in true }) {
            let text = "force unblock from blocking operation, instance state changed (master -> replica?)"
            self.end(client, with: .error("UNBLOCKED \(text)"))
        }
    }

    /// Sends clients that wait for a stream elsewhere whose slot another master has by now. They are told with the next output.
    package func redirectReaders() {
        for (client, waiting) in self.waitingClients(where: { _ in true }) {
            guard case .read(_, let command) = waiting.cause,
                let redirection = self.model.redirection(of: command)
            else { continue }
            self.end(client, with: .error(redirection))
        }
    }

    /// Shows the keys to the copy, and answers clients that waited for it.
    private func follow(_ now: Int64) {
        guard self.copy != nil else { return }
        self.copy?.follow(self.model, now: now)
        let waitingClients = self.waitingClients { waiting in
            if case .replicas = waiting.cause { true } else { false }
        }
        for (client, waiting) in waitingClients {
            guard case .replicas(let count) = waiting.cause, self.confirmations(of: client) >= count else { continue }
            self.end(client, with: .count(self.confirmations(of: client)))
            self.serve(client, now: now)
        }
    }

    /// Returns the number of replicas that have a client's writes.
    private func confirmations(of client: ClientID) -> Int {
        guard let copy = self.copy, copy.isReplica else { return self.model.replicas }
        return copy.confirmed >= self.clients[client]?.written ?? 0 ? self.model.replicas : 0
    }

    // MARK: Clients

    /// Lets time pass; returns what is to be sent to those whose wait is over.
    package func advance(to now: Int64) -> [Output] {
        guard self.refusal != .busy else { return [] }
        self.copy?.advance(to: now)
        self.follow(now)
        for (client, waiting) in self.waitingClients(where: { $0.deadline.map { $0 <= now } ?? false }) {
            self.end(client, with: self.emptyReply(waiting.cause, of: client))
            self.serve(client, now: now)
        }
        self.follow(now)
        return self.takeOutputs()
    }

    /// A command that waits, since a turn.
    private typealias Wait = (cause: Waiting, deadline: Int64?, turn: Int)

    /// Returns the clients that wait, in the order in which they began to. The condition comes first: few of many are meant, mostly.
    private func waitingClients(where isMeant: (Wait) -> Bool) -> [(ClientID, Wait)] {
        var found: [(ClientID, Wait)] = []
        for (client, state) in self.clients {
            if let waiting = state.waiting, isMeant(waiting) { found.append((client, waiting)) }
        }
        return found.count > 1 ? found.sorted { $0.1.turn < $1.1.turn } : found
    }

    private func emptyReply(_ cause: Waiting, of client: ClientID) -> ModelReply {
        switch cause {
        case .read: .nullArray
        case .replicas: .count(self.confirmations(of: client))
        }
    }

    private func takeOutputs() -> [Output] {
        guard !self.outputs.isEmpty else { return [] }
        defer { self.outputs.removeAll(keepingCapacity: true) }
        return self.outputs.values.sorted { $0.client < $1.client }
    }

    private func send(_ reply: ModelReply, to client: ClientID) {
        reply.encode(into: &self.outputs[client, default: Output(client: client, bytes: [])].bytes)
    }

    private func end(_ client: ClientID, with reply: ModelReply) {
        self.clients[client]?.waiting = nil
        self.send(reply, to: client)
    }

    /// Performs the commands of a client until it waits or has no more, then those of others whose wait has ended by it.
    private func serve(_ client: ClientID, now: Int64) {
        while self.clients[client]?.waiting == nil {
            do throws(RequestParser.Malformed) {
                guard let command = try self.clients[client]?.parser.next() else { return }
                guard !command.isEmpty else { continue }
                let writes = self.model.writes
                if let reply = self.perform(command, of: client, now: now) { self.send(reply, to: client) }
                if self.model.writes > writes { self.clients[client]?.written = self.model.writes }
            } catch {
                self.send(.error(error.text), to: client)
                self.outputs[client]?.closes = true
                self.clients[client] = nil
                return
            }
            self.serveWaiting(now: now)
        }
    }

    /// Repeats the reads that wait, in the order in which they began to.
    private func serveWaiting(now: Int64) {
        guard self.model.changes != self.seenChanges else { return }
        var served: [ClientID] = []
        let changed = self.model.takeChangedStreams()
        // Most commands change no stream.
        if let changed, changed.isEmpty {
            self.seenChanges = self.model.changes
            return
        }
        let waitingClients = self.waitingClients { waiting in
            guard case .read(let read, _) = waiting.cause else { return false }
            return changed.map { changed in read.streams.contains { changed.contains($0.key) } } ?? true
        }
        for (client, waiting) in waitingClients {
            guard case .read(let read, let command) = waiting.cause,
                let reply = self.attempt(read, command, now: now)
            else { continue }
            self.end(client, with: reply)
            served.append(client)
        }
        // The attempts themselves have changed nothing that others wait for.
        self.seenChanges = self.model.changes
        _ = self.model.takeChangedStreams()
        for client in served { self.serve(client, now: now) }
    }

    /// Returns the reply of a read that waits; nil while there is nothing.
    private func attempt(_ read: StreamRead, _ command: [Bytes], now: Int64) -> ModelReply? {
        do throws(CommandFault) {
            return try self.model.perform(read, command, now: now)
        } catch {
            let isGone = read.streams.contains { !self.model.exists($0.key) }
            return .error(isGone ? "UNBLOCKED the stream key no longer exists" : error.text)
        }
    }

    /// Returns a command's reply; nil when the client waits for it.
    private func perform(_ command: [Bytes], of client: ClientID, now: Int64) -> ModelReply? {
        let name = upper(command[0])
        if let refusal, !refusal.allows(name) { return .error(refusal.error) }
        if let redirection = self.model.redirection(of: command) {
            if self.clients[client]?.transaction != nil { self.clients[client]?.transactionFailed = true }
            return .error(redirection)
        }
        if self.clients[client]?.transaction != nil, !["EXEC", "DISCARD", "MULTI"].contains(name) {
            self.clients[client]?.transaction?.append(command)
            guard self.model.accepts(command) else {
                self.clients[client]?.transactionFailed = true
                return self.model.execute(command, now: now)
            }
            return .status("QUEUED")
        }
        switch name {
        case "CLIENT" where command.count > 1: return self.manageClient(command, client, now: now)
        case "AUTH", "SELECT": return .ok
        case "MULTI":
            guard self.clients[client]?.transaction == nil else { return .error("ERR MULTI calls can not be nested") }
            self.clients[client]?.transaction = []
            self.clients[client]?.transactionFailed = false
            return .ok
        case "DISCARD":
            guard self.clients[client]?.transaction != nil else { return .error("ERR DISCARD without MULTI") }
            self.clients[client]?.transaction = nil
            return .ok
        case "EXEC":
            guard let commands = self.clients[client]?.transaction else { return .error("ERR EXEC without MULTI") }
            self.clients[client]?.transaction = nil
            if self.clients[client]?.transactionFailed == true {
                return .error("EXECABORT Transaction discarded because of previous errors.")
            }
            return .array(commands.map { self.model.execute($0, now: now) })
        case "WAIT" where command.count == 3:
            guard let count = parseInteger(command[1]), let time = parseInteger(command[2]), time >= 0 else {
                return .error(CommandFault.notInteger.text)
            }
            if self.confirmations(of: client) >= count { return .count(self.confirmations(of: client)) }
            self.wait(client, .replicas(count), milliseconds: time, now: now)
            return nil
        case "XREAD", "XREADGROUP": return self.read(command, client, hasGroup: name == "XREADGROUP", now: now)
        default: return self.model.execute(command, now: now)
        }
    }

    private func wait(_ client: ClientID, _ cause: Waiting, milliseconds: Int64, now: Int64) {
        self.turns += 1
        self.clients[client]?.waiting = (cause, milliseconds == 0 ? nil : now + milliseconds * 1_000, self.turns)
    }

    private func read(_ command: [Bytes], _ client: ClientID, hasGroup: Bool, now: Int64) -> ModelReply? {
        let reply = self.model.execute(command, now: now)
        guard reply == .nullArray else { return reply }
        do throws(CommandFault) {
            let read = try StreamRead(command, hasGroup: hasGroup).resolved(self.model)
            guard let time = read.blocksFor else { return reply }
            self.wait(client, .read(read, command), milliseconds: time, now: now)
            return nil
        } catch {
            return .error(error.text)
        }
    }

    private func manageClient(_ command: [Bytes], _ client: ClientID, now: Int64) -> ModelReply {
        switch upper(command[1]) {
        case "SETNAME" where command.count == 3:
            self.clients[client]?.name = command[2]
            return .ok
        case "GETNAME": return .bulk(self.clients[client]?.name ?? [])
        case "ID": return .integer(client.number)
        case "UNBLOCK" where command.count == 3 || command.count == 4:
            guard let number = parseInteger(command[2]) else { return .error(CommandFault.notInteger.text) }
            let other = ClientID(number: number)
            guard let waiting = self.clients[other]?.waiting else { return .integer(0) }
            let isError = command.count == 4 && upper(command[3]) == "ERROR"
            let error = ModelReply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
            self.end(other, with: isError ? error : self.emptyReply(waiting.cause, of: other))
            self.serve(other, now: now)
            return .integer(1)
        default: return .error("ERR unknown subcommand or wrong number of arguments for CLIENT")
        }
    }
}
