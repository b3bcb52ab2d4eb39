import ApusCore
import ApusTerminal
import ArgumentParser
import Testing

/// Tests options that take one of a few words.
@Suite struct CommandWordsTests {
    @Test func `A word is read, and another one is refused with all words and the one that was meant`() throws {
        #expect(try CommandWords.value("publish", of: APIKeyRole.self, "--role") == .publish)
        #expect {
            try CommandWords.value("publsh", of: APIKeyRole.self, "--role")
        } throws: { error in
            "\(error)".contains(
                "--role is register, publish or admin, not \"publsh\"; did you mean publish?"
            )
        }
        #expect(CommandWords.joined(APIKeyRole.self) == "register|publish|admin")
    }
}
