internal import Glibc
internal import Synchronization

/// Runs a program that never outlives this process, however it ends.
///
/// A small shell starts the program and waits on a socket whose other end only we hold: when that end closes, by intent
/// or because this process was killed, the shell kills the program and removes its folder. (`PR_SET_PDEATHSIG` is not
/// suitable: it fires when the *thread* that started the program ends, and threads of a pool do.)
package final class WatchedProcess: Sendable {
    private static let script = """
        trap '' INT TERM HUP
        directory=$1
        shift
        "$@" </dev/null >>"$directory/log" 2>&1 &
        program=$!
        echo $program >"$directory/pid.new" && mv "$directory/pid.new" "$directory/pid"
        read -r word
        kill -KILL $program 2>/dev/null
        wait $program 2>/dev/null
        [ "$word" = keep ] || rm -rf "$directory"
        """

    private struct State {
        var leash: Int32?
        var isReaped = false
    }

    private let watcher: pid_t
    private let state: Mutex<State>
    /// The program's process id.
    package let pid: Int32

    /// Starts a program whose output is written to `log` in `directory`.
    package init(_ arguments: [String], directory: String) async throws {
        unsafe unlink("\(directory)/pid")
        var ends: [Int32] = [0, 0]
        // It is a pair of sockets, since Swift cannot create a pipe as close-on-exec in one step: a process started by
        // another thread in between would hold our end open.
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw RedisServerError("cannot create a pair of sockets: errno \(errno)")
        }
        let spawned = Self.spawn(["/bin/sh", "-c", Self.script, "watcher", directory] + arguments, input: ends[0])
        close(ends[0])
        guard let spawned else {
            close(ends[1])
            throw RedisServerError("cannot start /bin/sh")
        }
        self.watcher = spawned
        self.state = Mutex(State(leash: ends[1]))
        var pid: pid_t?
        for _ in 0..<10_000 where pid == nil {
            try await Task.sleep(for: .milliseconds(1))
            pid = readFile("\(directory)/pid").flatMap { pid_t($0.trimmed) }
        }
        guard let pid else {
            close(ends[1])
            throw RedisServerError("the watcher did not start \(arguments[0])")
        }
        self.pid = pid
    }

    deinit {
        let state = self.state.withLock { $0 }
        if let leash = state.leash { close(leash) }
        if !state.isReaped { _ = waitpid(self.watcher, nil, WNOHANG) }
    }

    /// True while the program runs: a dead one that was not waited for does not. A program whose first thread has ended
    /// runs as long as it has others.
    package var isRunning: Bool {
        guard let status = readFile("/proc/\(self.pid)/stat"), let name = status.lastIndex(of: ")") else {
            return false
        }
        // In proc(5), the name is followed by the state and, as the 18th field, the number of threads.
        let fields = status[name...].split(separator: " ").dropFirst()
        return fields.first != "Z" || (fields.dropFirst(17).first.flatMap { Int($0) } ?? 0) > 1
    }

    /// Sends the program a signal.
    package func signal(_ signal: Int32) { kill(self.pid, signal) }

    /// Kills the program with `SIGKILL` and waits until it is gone.
    ///
    /// - Parameter keepingDirectory: when false, the folder is removed.
    package func end(keepingDirectory: Bool) async {
        let leash = self.state.withLock { state in
            defer { state.leash = nil }
            return state.leash
        }
        guard let leash else { return }
        if keepingDirectory { _ = unsafe write(leash, "keep\n", 5) }
        close(leash)
        while waitpid(self.watcher, nil, WNOHANG) == 0 {
            // Cancellation does not end the wait: a cancelled test still cleans up.
            await Task { try? await Task.sleep(for: .milliseconds(1)) }.value
        }
        self.state.withLock { $0.isReaped = true }
    }

    /// The descriptors below this number are closed for programs.
    private static let descriptorsMax: Int32 = 4_096

    private static func spawn(_ arguments: [String], input: Int32) -> pid_t? {
        // The program must not inherit our sockets: a listening one would stay open until the program ends. The call
        // ignores descriptors that are not open.
        for descriptor in 3..<Self.descriptorsMax { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_adddup2(&actions, input, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // The program has a process group of its own: Ctrl-C at the terminal is for the tests; the socket informs the watcher.
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))
        let words = unsafe arguments.map { unsafe strdup($0) } + [nil]
        defer {
            for index in arguments.indices { unsafe free(words[index]) }
        }
        var pid: pid_t = 0
        let code = unsafe posix_spawn(&pid, arguments[0], &actions, &attributes, words, environ)
        return code == 0 ? pid : nil
    }
}
