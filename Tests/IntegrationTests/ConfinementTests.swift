import ApusCore
import ApusLab
import ApusMessages
import ApusTestKit
import Foundation
import NIOPosix
import Testing

/// The services with no more system calls than their units leave them: any other ends the process at once.
@Suite(.serialized) struct ConfinementTests {
    private static let tools = ["/usr/bin/systemd-analyze", "/usr/bin/python3"]
    private static let areToolsInstalled = tools.allSatisfy { FileManager.default.isExecutableFile(atPath: $0) }
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Runs a program with the system calls of a unit's `SystemCallFilter`, stricter than systemd with `SystemCallErrorNumber`.
    ///
    /// Sources: systemd.exec(5), "System Call Filtering"; seccomp(2).
    private static let confine = """
        import ctypes, os, platform, re, struct, subprocess, sys

        unit, program = sys.argv[1], sys.argv[2:]
        sets, name = {}, None
        listing = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True)
        for line in listing.stdout.splitlines():
            if not line.startswith(" "):
                name = line.strip() if line.startswith("@") else None
                sets[name] = []
            elif line.strip() and not line.strip().startswith("#"):
                sets[name].append(line.strip())

        def expand(word):
            return set().union(*map(expand, sets[word])) if word.startswith("@") else {word}

        allowed = expand("@default")
        for line in open(unit):
            if line.startswith("SystemCallFilter="):
                words = line.strip().partition("=")[2]
                named = set().union(*map(expand, words.lstrip("~").split()))
                allowed = allowed - named if words.startswith("~") else allowed | named

        header = "/usr/include/%s-linux-gnu/asm/unistd_64.h" % platform.machine()
        if not os.path.exists(header):
            header = "/usr/include/asm-generic/unistd.h"
        numbers = dict(re.findall(r"#define __NR_(\\w+)\\s+(\\d+)", open(header).read()))
        # Load the number; allow it if it is one of these; else end the process.
        code = [(0x20, 0, 0, 0)]
        for number in sorted(int(numbers[call]) for call in allowed if call in numbers):
            code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x7FFF0000)]
        code.append((0x06, 0, 0, 0x80000000))
        filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.c_void_p)]

        libc = ctypes.CDLL(None)
        assert libc.prctl(38, 1, 0, 0, 0) == 0, "no PR_SET_NO_NEW_PRIVS"
        assert libc.prctl(22, 2, ctypes.byref(Program(len(code), ctypes.addressof(filters))), 0, 0) == 0, "no seccomp"
        os.execv(program[0], program)
        """

    /// A folder with a program for each service that runs the real one so.
    private func confinedPrograms(in folder: String) throws -> ServicePrograms {
        try Self.confine.write(toFile: "\(folder)/confine.py", atomically: true, encoding: .utf8)
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        for name in ServicePrograms.names {
            let unit = Self.root.appending(path: "Scripts/deploy/systemd/\(name).service").path()
            let program = programs.appending(path: name).path()
            let script = "#!/bin/sh\nexec python3 '\(folder)/confine.py' '\(unit)' '\(program)' \"$@\"\n"
            try script.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(folder)/\(name)")
        }
        return try ServicePrograms(folder: folder)
    }

    @Test(.enabled(if: areToolsInstalled, "needs the Debian packages systemd and python3"))
    func `A system call that a unit forbids ends the program`() throws {
        let folder = try TemporaryDirectory.make("apus-confined")
        defer { TemporaryDirectory.remove(folder) }
        try Self.confine.write(toFile: "\(folder)/confine.py", atomically: true, encoding: .utf8)
        let unit = "[Service]\nSystemCallFilter=@system-service\nSystemCallFilter=~@resources\n"
        try unit.write(toFile: "\(folder)/unit", atomically: true, encoding: .utf8)
        func code(_ program: String...) throws -> (reason: Process.TerminationReason, status: Int32) {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/python3")
            process.arguments = ["\(folder)/confine.py", "\(folder)/unit"] + program
            try process.run()
            process.waitUntilExit()
            return (process.terminationReason, process.terminationStatus)
        }
        let allowed = try code("/usr/bin/true")
        #expect(allowed.reason == .exit && allowed.status == 0)
        let forbidden = try code("/usr/bin/nice", "-n", "5", "/usr/bin/true")
        #expect(forbidden.reason == .uncaughtSignal && forbidden.status == SIGSYS)
    }

    @Test(.enabled(if: areToolsInstalled, "needs the Debian packages systemd and python3"))
    func `The console shows its pages with the system calls that its unit leaves it, and ends well`() async throws {
        let folder = try TemporaryDirectory.make("apus-confined")
        defer { TemporaryDirectory.remove(folder) }
        try Self.confine.write(toFile: "\(folder)/confine.py", atomically: true, encoding: .utf8)
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        let unit = Self.root.appending(path: "Scripts/deploy/systemd/apus-console.service").path()
        try await Fleet.with { fleet in
            try await fleet.send(.topic("news"), id: "waits")
            let (work, port) = ("\(folder)/console", "\(folder)/port")
            try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
            let console = try await WatchedProcess(
                [
                    "/usr/bin/env", "-u", "APUS_CONFIG", "python3", "\(folder)/confine.py", unit,
                    programs.appending(path: "apus-console").path(), "--redis", fleet.redisURL,
                    "--listen", "127.0.0.1:0", "--port-file", port,
                ],
                directory: work,
            )
            try await eventually("it listens", timeout: .seconds(60)) { FileManager.default.fileExists(atPath: port) }
            let connection = try await HTTPConnection.connect(
                host: "127.0.0.1",
                port: Int(try String(contentsOfFile: port, encoding: .utf8).prefix { $0.isNumber }) ?? 0,
                on: MultiThreadedEventLoopGroup.singleton
            )
            let answer = try await connection.send(HTTPClientRequest("GET", "/", headers: []))
            await connection.close()
            #expect(String(decoding: answer.body, as: UTF8.self).contains("<h1>"))
            console.signal(SIGTERM)
            try await eventually("it ends", timeout: .seconds(60)) { !console.isRunning }
            // It takes the file away when it ends well.
            #expect(!FileManager.default.fileExists(atPath: port))
            await console.end(keepingDirectory: true)
        }
    }

    @Test(.enabled(if: areToolsInstalled, "needs the Debian packages systemd and python3"))
    func `Each service does its work with the system calls that its unit leaves it, and ends well`() async throws {
        let folder = try TemporaryDirectory.make("apus-confined")
        defer { TemporaryDirectory.remove(folder) }
        var configuration = LocalClusterConfiguration()
        configuration.programs = try self.confinedPrograms(in: folder)
        // More than one thread, so that lanes have their own.
        configuration.eventLoops = 2
        configuration.keyDigest = Hexadecimal.encode(Array(repeating: 0, count: 32))
        try await Fleet.with(configuration) { fleet in
            let devices = try await fleet.register(200) { _ in ["news"] }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, _) = try await fleet.startRegistration()
            try await fleet.send(.topic("news"), id: "news")
            try await fleet.send(.devices([devices[0].id]), id: "one", lane: .express)
            _ = try await fleet.completion(of: "news")
            try await eventually("the single one is accepted", timeout: .seconds(60)) {
                fleet.accepted(of: "one").values.reduce(0, +) == 1
            }
            #expect(fleet.accepted(of: "news").values.reduce(0, +) == devices.count)
            for service in [dispatcher, feedback, registration] {
                #expect(try await service.get("metrics").status == 200)
                try await service.terminate()
            }
        }
    }
}
