import ApusTestKit
import Foundation
import Testing

/// Tests the Debian package and the tarball that `Scripts/package` makes of the programs that were built with these tests.
@Suite struct PackageTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        .deletingLastPathComponent().path()

    @discardableResult
    private static func run(_ words: String...) throws -> (code: Int32, said: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = words
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let said = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, said)
    }

    @Test(.timeLimit(.minutes(5)))
    func `The package is installed with dpkg, runs, and is removed; the tarball has the same files`() throws {
        let folder = try TemporaryFolder()
        defer { withExtendedLifetime(folder) {} }
        let script = Self.root.appending(path: "Scripts/package").path()
        let made = try Self.run(
            script,
            "--programs",
            Self.programs,
            "--into",
            "\(folder.path)/made",
            "--compression",
            "none",
        )
        try #require(made.code == 0, "\(made.said)")
        let sizes = made.said.matches(of: /(?m)^(\S+)  ([0-9]+) MiB$/)
        #expect(sizes.count == 2 && sizes.allSatisfy { Int($0.2).map { $0 > 10 } ?? false }, "\(made.said)")
        let (package, tarball) = (String(sizes[0].1), String(sizes[1].1))
        // Two commits have two versions, and the later one is higher.
        let commit = try Self.run("git", "-C", Self.root.path(), "log", "-1", "--format=+git%ct.%h")
        let names = commit.said.trimmingCharacters(in: .whitespacesAndNewlines)
        let field = try Self.run("dpkg-deb", "--field", package, "Version").said
        #expect(commit.code == 0 && field.hasSuffix("\(names)\n"), "\(field)")

        // A root of its own, in which nothing is installed.
        let target = "\(folder.path)/installed"
        for path in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
            try FileManager.default.createDirectory(atPath: "\(target)/\(path)", withIntermediateDirectories: true)
        }
        try "".write(toFile: "\(target)/var/lib/dpkg/status", atomically: true, encoding: .utf8)
        func dpkg(_ words: String...) throws -> (code: Int32, said: String) {
            let dpkg =
                "exec dpkg --root='\(target)' --log=/dev/null --force-not-root --force-script-chrootless --force-depends \"$@\""
            return try Self.run("sh", "-c", dpkg, "dpkg", words[0], words.count > 1 ? words[1] : package)
        }
        let installed = try dpkg("--install", package)
        try #require(installed.code == 0, "\(installed.said)")
        let version = try Self.run("\(target)/usr/bin/apus", "--version").said
        for name in ["apus-registration", "apus-dispatcher", "apus-feedback", "apus-console"] {
            let answer = try Self.run("\(target)/usr/bin/\(name)", "--version")
            #expect(answer.said == (name == "apus-console" ? version : "\(name) \(version)"))
            let unit = try String(contentsOfFile: "\(target)/usr/lib/systemd/system/\(name).service", encoding: .utf8)
            #expect(unit.contains("ExecStart=/usr/bin/\(name) "))
            #expect(unit.contains("\n[Service]\nEnvironment=APUS_REVISION=\(names.split(separator: ".").last ?? "")\n"))
        }
        #expect(FileManager.default.fileExists(atPath: "\(target)/etc/apus"))
        let alerts = "\(target)/usr/share/apus/dashboards/prometheus/alerts.yml"
        #expect(try String(contentsOfFile: alerts, encoding: .utf8).contains("ApusServiceMissing"))
        #expect(FileManager.default.fileExists(atPath: "\(target)/usr/share/apus/protos/apus/v1/send.proto"))

        // The shell completes the words of options.
        let complete = """
            . '\(target)/usr/share/bash-completion/completions/apus'
            COMP_WORDS=(apus key create --role "") COMP_CWORD=4
            _apus apus "" --role
            echo "${COMPREPLY[*]}"
            """
        let completed = try Self.run("bash", "-c", complete)
        #expect(completed.said == "register publish admin\n", "\(completed.said)")

        // The example names files that are not there, and is right in everything else.
        let example = "\(target)/usr/share/doc/apus/examples/apus.yaml"
        let check = try Self.run("\(target)/usr/bin/apus", "config", "check", "--config", example)
        let mistakes = check.said.split(separator: "\n")
            .filter { $0.contains("apus.yaml:") && !$0.hasPrefix("\(example): ") }
        #expect(
            !mistakes.isEmpty && mistakes.allSatisfy { $0.contains(": no such file or directory [") },
            "\(check.said)"
        )

        // An upgrade is an installation over it.
        #expect(try dpkg("--install", package).code == 0)
        let files = try Self.run("tar", "--list", "--file", tarball).said.split(separator: "\n").filter {
            !$0.hasSuffix("/")
        }
        for file in files {
            let path = file.drop { $0 != "/" }
            #expect(FileManager.default.fileExists(atPath: "\(target)/usr\(path)"), "\(file)")
        }
        #expect(files.count > 40)
        #expect(try dpkg("--remove", "apus").code == 0)
        #expect(!FileManager.default.fileExists(atPath: "\(target)/usr/bin/apus"))
    }

    @Test func `The package depends on every library that the programs load`() throws {
        let script = try String(contentsOf: Self.root.appending(path: "Scripts/package"), encoding: .utf8)
        let depends = try #require(script.firstMatch(of: /\nDepends: (.*)\n/)).1
        let packages = Set(depends.split(separator: ",").map { $0.split(separator: " ")[0] }.map { String($0) })
        // The other libraries that the debug programs load belong to the installed Swift.
        let libraries = try Self.run("ldd", "\(Self.programs)/apus-dispatcher").said
            .matches(of: /=> (\/(?:usr\/)?lib\/x86_64-linux-gnu\/\S+)/).map { String($0.1) }
        #expect(libraries.count > 5)
        for library in libraries {
            let path = URL(filePath: library).resolvingSymlinksInPath().path()
            let owner = try Self.run(
                "sh",
                "-c",
                "dpkg -S '\(library)' 2>/dev/null || dpkg -S '\(path)' || dpkg -S '/usr\(path)'"
            ).said
            let name = owner.split(separator: ":").first.map { String($0) } ?? ""
            let known = packages.contains(name) || ["zlib1g", "libz1"].contains(name)
            #expect(known, "\(library) is of \(owner)")
        }
    }

    @Test(arguments: ["generate-messages", "pictures"])
    func `A script that writes files of the repository does nothing for a question or a wrong option`(
        name: String
    ) throws {
        let script = Self.root.appending(path: "Scripts/\(name)").path()
        let help = try Self.run(script, "--help")
        #expect(help.code == 0 && help.said.hasPrefix("usage: Scripts/\(name) ") && help.said.count { $0 == "\n" } == 1)
        let wrong = try Self.run(script, "--chekc")
        #expect(wrong.code == 64 && wrong.said == help.said)
    }

    @Test func `A wrong option and missing programs are told`() throws {
        let script = Self.root.appending(path: "Scripts/package").path()
        let usage = try Self.run(script, "--colour")
        #expect(usage.code == 64 && usage.said.contains("usage: Scripts/package"))
        let missing = try Self.run(script, "--programs", "/nowhere")
        #expect(missing.code == 1 && missing.said.contains("/nowhere/apus is not there"))
    }
}
