import ApusTestKit
import Foundation
import HTTPTypes
import NIOCore
import NIOPosix
import Testing

@testable import ApusRegistration

/// Requests whose clients wait with the content until they are told to send it (RFC 9110 §10.1.1).
@Suite struct RequestExpectationTests {
    private static let device = #"{"provider":"fcm","token":"t"}"#
    private static let interim = "HTTP/1.1 100 Continue\r\n\r\n"

    private static func head(
        _ line: String,
        _ expectation: String = "100-continue",
        key: String? = Fixture.shopKey,
        type: String = "application/json",
        length: Int = Self.device.utf8.count,
    ) -> String {
        let lines = [
            line, "Host: localhost", "Content-Type: \(type)", "Content-Length: \(length)", "Expect: \(expectation)",
        ]
        return (lines + (key.map { ["Authorization: Bearer \($0)"] } ?? [])).map { $0 + "\r\n" }.joined() + "\r\n"
    }

    private static func put(_ device: String) -> String { "PUT \(Fixture.path(device)) HTTP/1.1" }

    /// The status codes of what was answered, interim answers included.
    private static func statuses(_ answer: String) -> [String] {
        answer.split(separator: "HTTP/1.1 ").map { String($0.prefix(3)) }
    }

    @Test func `The header says what is expected, in any case`() {
        func read(_ values: String...) -> RequestExpectation {
            var headers = HTTPFields()
            for value in values { headers.append(HTTPField(name: .expect, value: value)) }
            return RequestExpectation(headers)
        }
        #expect(read() == .none)
        #expect(read("") == .none)
        #expect(read("100-continue") == .continuation)
        #expect(read("100-Continue ") == .continuation)
        #expect(read("100-continue", "100-continue") == .continuation)
        #expect(read("101-continue") == .unknown)
        #expect(read("100-continue;q=1") == .unknown)
        #expect(read("100-continue", "nginx") == .unknown)
        #expect(read("100-continue, nginx") == .unknown)
    }

    @Test func `Only the request that is being answered is waited for, and only until its content begins`() {
        var waiting = WaitingContent()
        waiting.receiveHead(expectsContinue: false)
        waiting.receiveContent()
        waiting.receiveHead(expectsContinue: true)
        #expect(waiting.ask() == false, "an earlier request is answered first")
        #expect(waiting.refuse() == false)
        #expect(waiting.finish() == false)
        #expect(waiting.ask() == true)
        #expect(waiting.ask() == false, "it is told once")
        #expect(waiting.refuse() == false)
        #expect(waiting.finish() == false)

        waiting.receiveHead(expectsContinue: true)
        waiting.receiveContent()
        #expect(waiting.ask() == false, "the content has begun")
        #expect(waiting.refuse() == false)
        #expect(waiting.finish() == false)

        waiting.receiveHead(expectsContinue: true)
        #expect(waiting.refuse() == true)
        #expect(waiting.finish() == true, "whether the content comes is not known")
    }

    @Test func `A client that waits is told to send, and its connection goes on`() async throws {
        try await Fixture.with { fixture in
            let connection = RawConnection()
            let channel = try await connection.connect(port: fixture.port)
            var interims = 0
            for device in ["d1", "d2"] {
                try await channel.writeAndFlush(ByteBuffer(string: Self.head(Self.put(device))))
                interims += 1
                try await eventually("the client is told to send") {
                    connection.answer.components(separatedBy: Self.interim).count == interims + 1
                        && connection.answer.hasSuffix(Self.interim)
                }
                try await channel.writeAndFlush(ByteBuffer(string: Self.device))
                try await eventually("the request is answered") {
                    Self.statuses(connection.answer).filter { $0 == "201" }.count == interims
                }
            }
            let line = #"{"device": "d3", "provider": "fcm", "token": "t3"}"# + "\n"
            let head = Self.head(
                "POST /v1/apps/shop/devices:import HTTP/1.1",
                type: "application/x-ndjson",
                length: line.utf8.count,
            )
            try await channel.writeAndFlush(ByteBuffer(string: head))
            try await eventually("the import is told to send") {
                Self.statuses(connection.answer) == ["100", "201", "100", "201", "100", "200"]
            }
            try await channel.writeAndFlush(ByteBuffer(string: line))
            try await eventually("its line is answered") { connection.answer.contains(#""line":1"#) }
            #expect(!connection.isClosed)
            try await channel.close()
            #expect(try await fixture.ask("GET", Fixture.path("d2")).status == 200)
        }
    }

    @Test func `A request that is refused by its head is refused at once, and its connection closed`() async throws {
        try await Fixture.with { fixture in
            let importLine = "POST /v1/apps/shop/devices:import HTTP/1.1"
            let requests: [(String, String)] = [
                (Self.head(Self.put("d1"), key: nil), "401"), (Self.head(Self.put("d1"), key: "wrong"), "401"),
                (Self.head(Self.put("d1"), key: Fixture.publishKey), "403"),
                (Self.head(Self.put("d1"), length: APILimits.bodyBytesMax + 1), "413"),
                (Self.head("PUT /nowhere HTTP/1.1"), "404"), (Self.head("POST \(Fixture.path("d1")) HTTP/1.1"), "405"),
                (Self.head("PUT \(Fixture.path("d1"))?a=b HTTP/1.1"), "400"),
                (Self.head(importLine, type: "application/json"), "415"),
                (Self.head(importLine, key: Fixture.publishKey, type: "application/x-ndjson"), "403"),
            ]
            for (request, status) in requests {
                let connection = RawConnection()
                let channel = try await connection.connect(port: fixture.port)
                try await channel.writeAndFlush(ByteBuffer(string: request))
                try await eventually("the connection is closed after \(status)") { connection.isClosed }
                #expect(Self.statuses(connection.answer) == [status])
                #expect(connection.answer.lowercased().contains("connection: close\r\n"), "\(status)")
            }
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
        }
    }

    @Test func `A client that does not wait is answered as without the header`() async throws {
        try await Fixture.with { fixture in
            let connection = RawConnection()
            let channel = try await connection.connect(port: fixture.port)
            let whole = Self.head(Self.put("d1")) + Self.device
            let refused = Self.head(Self.put("d1"), key: "wrong") + Self.device
            try await channel.writeAndFlush(ByteBuffer(string: whole + refused + whole))
            try await eventually("all are answered") {
                Self.statuses(connection.answer).filter { $0 != "100" } == ["201", "401", "200"]
            }
            #expect(!connection.isClosed)
            try await channel.close()
        }
    }

    @Test func `What no server has is refused, and a client of HTTP 1_0 gets no interim answer`() async throws {
        try await Fixture.with { fixture in
            let connection = RawConnection()
            let channel = try await connection.connect(port: fixture.port)
            let unknown = Self.head(Self.put("d1"), "a-miracle") + Self.device
            try await channel.writeAndFlush(ByteBuffer(string: unknown))
            try await eventually("it is refused") { Self.statuses(connection.answer) == ["417"] }
            #expect(connection.answer.contains("urn:apus:problem:expectation-failed"))
            try await channel.close()
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)

            for (expectation, status) in [("100-continue", "201"), ("a-miracle", "200")] {
                let old = RawConnection()
                let oldChannel = try await old.connect(port: fixture.port)
                let head = Self.head("PUT \(Fixture.path("d1")) HTTP/1.0", expectation)
                try await oldChannel.writeAndFlush(ByteBuffer(string: head))
                try await oldChannel.writeAndFlush(ByteBuffer(string: Self.device))
                try await eventually("it is carried out") { Self.statuses(old.answer) == [status] }
                try? await oldChannel.close()
            }
        }
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")))
    func `curl sends a large body as soon as it is told to`() async throws {
        try await Fixture.with { fixture in
            let count = 20_000
            let lines = (0..<count).map { #"{"device": "d\#($0)", "provider": "fcm", "token": "token-\#($0)"}"# + "\n" }
            let file = try fixture.folder.write("lines", lines.joined())
            #expect(lines.joined().utf8.count > 1 << 20)
            let process = Process()
            let output = Pipe()
            process.executableURL = URL(filePath: "/usr/bin/curl")
            // It would wait for longer than it may take if it were not told to send.
            process.arguments = [
                "--silent", "--show-error", "--dump-header", "\(fixture.folder.path)/heads", "--expect100-timeout",
                "1000",
                "--max-time", "240", "--header", "Authorization: Bearer \(Fixture.shopKey)", "--header",
                "Content-Type: application/x-ndjson", "--header", "Expect: 100-continue", "--data-binary", "@\(file)",
                "http://127.0.0.1:\(fixture.port)/v1/apps/shop/devices:import",
            ]
            process.standardOutput = output
            process.standardInput = FileHandle.nullDevice
            try process.run()
            // On a thread of its own: the service needs those of tasks.
            let (bytes, status) = try await NIOThreadPool.singleton.runIfActive {
                let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
                process.waitUntilExit()
                return (bytes, process.terminationStatus)
            }
            #expect(status == 0)
            #expect(bytes.count { $0 == UInt8(ascii: "\n") } == count)
            let heads = try String(contentsOfFile: "\(fixture.folder.path)/heads", encoding: .utf8)
            #expect(Self.statuses(heads) == ["100", "200"])
        }
    }
}
