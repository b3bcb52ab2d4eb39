import ApusTestKit
import Foundation
import Testing

private let program = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: ".build/python/bin/schemathesis").path(percentEncoded: false)

/// The service against its own description, by https://schemathesis.readthedocs.io: whatever a client sends, no answer is a
/// fault of ours, and none is one that the description does not know.
@Suite struct SchemathesisTests {
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: program), "needs Scripts/setup"))
    func everyAnswerIsOneThatTheDescriptionKnows() async throws {
        try await Fixture.with { fixture in
            // The app of all calls is one that is there; any other is a 401, which takes no schemathesis to find.
            let configuration = try fixture.folder.write(
                "schemathesis.toml",
                """
                hooks = "hooks.py"
                [parameters]
                "path.app" = "shop"
                """,
            )
            try fixture.folder.write(
                "hooks.py",
                """
                import json
                import schemathesis


                @schemathesis.serializer("application/x-ndjson")
                def line(context, value):
                    return json.dumps(value).encode() + b"\\n"


                @schemathesis.deserializer("application/x-ndjson")
                def first(context, response):
                    lines = response.text.splitlines()
                    return json.loads(lines[0]) if lines else {"line": 1, "status": 200}
                """,
            )
            let report = "\(fixture.folder.path)/schemathesis.out"
            _ = FileManager.default.createFile(atPath: report, contents: nil)
            let output = try #require(FileHandle(forWritingAtPath: report))
            let process = Process()
            process.executableURL = URL(filePath: program)
            process.currentDirectoryURL = URL(filePath: fixture.folder.path)
            process.arguments = [
                "--config-file", configuration, "run", "http://127.0.0.1:\(fixture.port)/openapi.json",
                "--header", "Authorization: Bearer \(Fixture.adminKey)", "--seed", "1", "--max-examples", "20",
                "--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--no-shrink",
                "--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "20", "--no-color",
                "--checks",
                "not_a_server_error,status_code_conformance,content_type_conformance,"
                    + "response_headers_conformance,response_schema_conformance",
            ]
            process.standardOutput = output
            process.standardError = output
            try await withCheckedThrowingContinuation { (ended: CheckedContinuation<Void, any Error>) in
                process.terminationHandler = { _ in ended.resume() }
                do { try process.run() } catch { ended.resume(throwing: error) }
            }
            let text = try String(contentsOfFile: report, encoding: .utf8)
            #expect(process.terminationStatus == 0, "\(text.suffix(6_000))")
            let metrics = try await fixture.metrics
            let faults = metrics.split(separator: "\n").filter { $0.contains(#"code="500"}"#) && !$0.hasSuffix(" 0") }
            #expect(faults.isEmpty)
        }
    }
}
