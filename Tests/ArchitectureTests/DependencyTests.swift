import Foundation
import Testing

/// Tests that what Package.swift declares equals what the sources import.
@Suite struct DependencyTests {
    /// Modules of the toolchain and the system: nobody declares them.
    private static let builtIn: Set = [
        "Dispatch", "Foundation", "FoundationEssentials", "Glibc", "Synchronization", "Testing",
    ]

    private static func manifest() throws -> String {
        try String(contentsOf: SourceTree.root.appending(path: "Package.swift"), encoding: .utf8)
    }

    /// Each target of the manifest with the modules that it declares, the programs that tests start left out.
    private static func declared() throws -> [String: Set<String>] {
        let text = try Self.manifest()
        var modules: [String: String] = [:]
        for match in text.matches(of: /let (\w+): Target\.Dependency = \.product\(name: "(\w+)"/) {
            modules[String(match.1)] = String(match.2)
        }
        var declared: [String: Set<String>] = [:]
        for match in text.matches(of: /\b(?:library|program|tests)\(\s*"([\w-]+)",\s*\[([^\]]*)\]/) {
            let names = match.2.split { $0 == "," || $0.isWhitespace }.map(String.init)
            let imported = names.filter { !$0.hasPrefix("\"apus") }
            declared[String(match.1)] = try Set(
                imported.map { name in
                    if name.hasPrefix("\"") { return String(name.dropFirst().dropLast()) }
                    return try #require(modules[name], "\(name) is no product that the manifest names")
                }
            )
        }
        return declared
    }

    private static func imported(under folder: String) throws -> [String: Set<String>] {
        var imported: [String: Set<String>] = [:]
        for file in try SourceTree.swiftFiles(under: folder) {
            let modules = file.lines.compactMap { SourceTree.importedModule($0) }
            imported[file.target, default: []].formUnion(modules)
        }
        return imported
    }

    @Test(arguments: ["Sources", "Tests"])
    func `Every dependency is imported, and every import is declared`(_ folder: String) throws {
        let declared = try Self.declared()
        let imported = try Self.imported(under: folder)
        #expect(imported.count > 20)
        // The C module's own wrapper has no Swift that could import anything.
        for (target, modules) in imported where target != "CApusMessages" {
            let own = try #require(declared[target], "\(target) is no target of the manifest")
            let unused = own.subtracting(modules)
            let undeclared = modules.subtracting(own).subtracting(Self.builtIn)
            #expect(unused.isEmpty, "\(target) declares what it does not import: \(unused.sorted())")
            #expect(undeclared.isEmpty, "\(target) imports what it does not declare: \(undeclared.sorted())")
        }
    }

    @Test func `Every package is pinned to one version, and a target depends on it`() throws {
        let text = try Self.manifest()
        let packages = text.matches(of: /\.package\(url: "[^"]*\/([^"\/]+)", (\w+): "([^"]+)"/)
        #expect(packages.count > 5)
        #expect(packages.count == text.matches(of: /\.package\(\s*url/).count)
        for package in packages {
            #expect(package.2 == "exact", "\(package.1) may change its version by itself")
            #expect(text.contains("package: \"\(package.1)\")"), "nothing is taken from \(package.1)")
        }
        let products = text.matches(of: /let (\w+): Target\.Dependency/).map { String($0.1) }
        for product in products {
            #expect(text.matches(of: try Regex("\\b\(product)\\b")).count > 1, "\(product) is named and not used")
        }
    }
}
