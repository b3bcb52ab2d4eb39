import Foundation
import Testing

/// The files that the programs carry.
@Suite struct EmbeddedTextTests {
    @Test(arguments: [
        "ApusStore/Functions", "ApusStreams/Functions", "ApusDashboards/Console/Page", "ApusConsole/Assets",
    ])
    func `Every file of a folder is compiled in`(folder: String) throws {
        let sources = SourceTree.root.appending(path: "Sources")
        let texts = try String(contentsOf: sources.appending(path: "CApusTexts/texts.c"), encoding: .utf8)
        let files = try FileManager.default.contentsOfDirectory(atPath: sources.appending(path: folder).path())
        #expect(!files.isEmpty)
        for file in files {
            #expect(texts.contains("#embed \"../\(folder)/\(file)\""), "\(folder)/\(file) is not in texts.c")
        }
    }
}
