internal import ApusRedis
internal import ApusTestKit
internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// A real redis-server whose clock is set from here, so that a model of it can be compared to the microsecond.
@safe
package final class ReferenceServer: Sendable {
    /// Gives the server its time: a library that is loaded before the C library's, and reads the time in a file that both have mapped.
    private static let clockSource = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/time.h>
        #include <time.h>
        static volatile long long *now;
        __attribute__((constructor)) static void open_clock(void) {
            int file = open(getenv("APUS_CLOCK"), O_RDONLY);
            void *page = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
            if (page != MAP_FAILED) now = page;
        }
        int gettimeofday(struct timeval *time, void *zone) {
            time->tv_sec = *now / 1000000;
            time->tv_usec = *now % 1000000;
            return 0;
        }
        time_t time(time_t *result) {
            time_t seconds = *now / 1000000;
            if (result) *result = seconds;
            return seconds;
        }
        """

    /// Settings that give small hashes and sets the order of insertion, and streams one entry a node.
    private static let settings = [
        "stream-node-max-entries": "1", "hash-max-listpack-entries": "100000", "hash-max-listpack-value": "100000000",
        "zset-max-listpack-entries": "100000", "zset-max-listpack-value": "100000000", "hz": "1",
    ]

    private let connection: RedisConnection
    private nonisolated(unsafe) let clock: UnsafeMutablePointer<Int64>

    private init(_ connection: RedisConnection, _ clock: UnsafeMutablePointer<Int64>) {
        self.connection = connection
        unsafe self.clock = clock
    }

    /// Starts a server and runs `body` with it.
    ///
    /// - Parameter now: the server's time at the start, in µs since 1970.
    package static func with<Result>(
        now: Int64,
        _ body: (ReferenceServer) async throws -> Result,
    ) async throws -> Result {
        let folder = try TemporaryFolder()
        let source = try folder.write("clock.c", Self.clockSource)
        let (library, file) = ("\(folder.path)/clock.so", "\(folder.path)/clock")
        guard unsafe system("clang -shared -fPIC -O1 -o '\(library)' '\(source)'") == 0 else {
            throw ReferenceServerError("clang cannot compile the clock of the reference server")
        }
        let clock = try unsafe Self.map(file)
        defer { unsafe munmap(clock, Self.clockBytes) }
        unsafe clock.pointee = now
        let options = RedisServer.Options(
            settings: Self.settings,
            isCluster: false,
            environment: ["LD_PRELOAD": library, "APUS_CLOCK": file],
        )
        return try await RedisServer.with(options) { server in
            let configuration = try RedisConfiguration(url: server.url)
            let connection = try await RedisConnection.connect(
                to: configuration.endpoint,
                configuration: configuration,
                on: MultiThreadedEventLoopGroup.singleton.any(),
            ).get()
            defer { connection.close() }
            return try await body(unsafe ReferenceServer(connection, clock))
        }
    }

    private static let clockBytes = 4_096

    private static func map(_ path: String) throws -> UnsafeMutablePointer<Int64> {
        let file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        guard file >= 0, ftruncate(file, off_t(Self.clockBytes)) == 0,
            let page = unsafe mmap(nil, Self.clockBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
            unsafe page != MAP_FAILED
        else { throw ReferenceServerError("cannot map \(path): errno \(errno)") }
        return unsafe page.assumingMemoryBound(to: Int64.self)
    }

    /// Executes a command at a time, in µs since 1970.
    package func execute(_ arguments: [Bytes], now: Int64) async throws -> ModelReply {
        unsafe self.clock.pointee = now
        let name = String(decoding: arguments[0], as: UTF8.self)
        let command = RedisCommand(name, arguments.dropFirst().map { RedisArgument.bytes($0) })
        do {
            return ModelReply(try await self.connection.send(command).get().root)
        } catch let error as RedisError where !error.isUnanswered {
            return .error(error.message)
        }
    }
}

extension ModelReply {
    /// Copies a reply of a real server.
    init(_ node: RESPNode) {
        self =
            switch node.kind {
            case .bulk: .bulk(node.bytes ?? [])
            case .status: .status(node.string ?? "")
            case .error: .error(node.string ?? "")
            case .integer: .integer(node.integer ?? 0)
            case .array: .array(node.children.map { ModelReply($0) })
            case .null: .null
            }
    }
}

/// Reports why the reference cannot be used.
struct ReferenceServerError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
