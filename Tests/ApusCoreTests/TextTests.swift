import ApusCore
import Testing

@Suite struct HexadecimalTests {
    @Test func encodesInLowerCase() {
        #expect(Hexadecimal.encode([]) == "")
        #expect(Hexadecimal.encode([0x00, 0x0f, 0xa0, 0xff]) == "000fa0ff")
    }

    @Test func decodesEitherCase() {
        #expect(Hexadecimal.decode("") == [])
        #expect(Hexadecimal.decode("000fA0fF") == [0x00, 0x0f, 0xa0, 0xff])
    }

    @Test(arguments: ["0", "000", "0g", "g0", " 00", "0x00", "00 ", "\u{ff10}0", "é", "@G", "`g", "/:", "0\u{0}"])
    func refusesTheRest(_ text: String) { #expect(Hexadecimal.decode(text) == nil) }

    @Test func everyByteComesBack() {
        let bytes = (0...255).map { UInt8($0) }
        #expect(Hexadecimal.decode(Hexadecimal.encode(bytes)) == bytes)
    }
}

@Suite struct Base64URLTests {
    /// RFC 4648 §10, without padding; and the two characters that set the alphabet apart.
    private static let vectors: [(bytes: [UInt8], text: String)] = [
        ([], ""), (Array("f".utf8), "Zg"), (Array("fo".utf8), "Zm8"), (Array("foo".utf8), "Zm9v"),
        (Array("foob".utf8), "Zm9vYg"), (Array("fooba".utf8), "Zm9vYmE"), (Array("foobar".utf8), "Zm9vYmFy"),
        ([0xfb, 0xff], "-_8"), ([0, 0, 0], "AAAA"), ([0xff], "_w"),
    ]

    @Test func theVectorsOfTheStandard() {
        for (bytes, text) in Self.vectors {
            #expect(Base64URL.encode(bytes) == text)
            #expect(Base64URL.decode(text) == bytes)
        }
    }

    @Test func paddingIsTakenWhereItBelongs() {
        #expect(Base64URL.decode("Zg==") == Array("f".utf8))
        #expect(Base64URL.decode("Zm8=") == Array("fo".utf8))
        #expect(Base64URL.decode("Zm9vYg==") == Array("foob".utf8))
    }

    @Test(arguments: [
        // Lengths that no bytes have.
        "Z", "Zm9vY", "AAAAA",
        // Padding too short, too long, alone, within.
        "Zg=", "Zm8==", "Zg===", "Z===", "=", "==", "===", "====", "Zm9v=", "Zm9v====", "Z=g=", "=Zg=", "Zg==Zg==",
        // Bits that no byte has: another text for the same bytes.
        "Zh", "Zm9", "_x", "Zh==", "AB",
        // The other alphabet, blanks, and what is not ASCII.
        "-/8", "+_8", "Zg ", " Zg", "Zm\n8", "Zé", "Z\u{0}", "A.A",
    ])
    func refusesTheRest(_ text: String) { #expect(Base64URL.decode(text) == nil) }

    @Test func bytesOfAnyLengthComeBack() {
        var generator = SeededGenerator(seed: 3)
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
        }
    }
}

@Suite struct ClippedTests {
    @Test func shortTextStaysWhole() {
        #expect("".clipped(toBytes: 0) == "")
        #expect("abc".clipped(toBytes: 3) == "abc")
        #expect("abc".clipped(toBytes: 1_000) == "abc")
    }

    @Test func longTextIsCutAtACharacter() {
        #expect("abc".clipped(toBytes: 2) == "ab")
        #expect("abc".clipped(toBytes: 0) == "")
        #expect("abc".clipped(toBytes: -1) == "")
        #expect("aé".clipped(toBytes: 2) == "a")
        #expect("☃☃".clipped(toBytes: 5) == "☃")
        #expect("a🦅".clipped(toBytes: 4) == "a")
        #expect("🦅".clipped(toBytes: 3) == "")
        #expect("ab\u{301}c".clipped(toBytes: 4) == "ab\u{301}")
        #expect("ab\u{301}c".clipped(toBytes: 3) == "a")
        #expect("ab\u{301}c".clipped(toBytes: 2) == "a")
        #expect("🇦🇹🇩🇪".clipped(toBytes: 15) == "🇦🇹")
        // A letter and its accent, a family: one character each.
        #expect("ae\u{301}".clipped(toBytes: 2) == "a")
        #expect("a👨‍👩‍👧".clipped(toBytes: 12) == "a")
    }

    @Test(arguments: [
        ("naïve 🕊 \"a\" \\b", #"naïve 🕊 "a" \b"#), ("a\r\nb\tc", #"a\r\nb\tc"#),
        ("\u{0}\u{1b}]52;c;eA==\u{7}\u{7f}\u{9b}31m", #"\u0000\u001b]52;c;eA==\u0007\u007f\u009b31m"#),
        ("a\u{2028}b\u{2029}c\u{202e}d\u{2066}e", #"a\u2028b\u2029c\u202ed\u2066e"#),
    ])
    func `What a terminal would obey is escaped, once`(text: String, shown: String) {
        #expect(text.visible == shown && shown.visible == shown)
    }

    @Test func nothingIsEverLongerThanAsked() {
        let text = "aé☃🦅e\u{301}👨‍👩‍👧z"
        for count in 0...text.utf8.count {
            let clipped = text.clipped(toBytes: count)
            #expect(clipped.utf8.count <= count)
            #expect(text.hasPrefix(clipped))
        }
    }
}

@Suite struct LanguageTagTests {
    @Test(arguments: [
        "en", "en-GB", "zh-Hant-TW", "sl-rozaj-biske-1994", "de-CH-x-phonebk", "x-whatever", "i-klingon", "EN-gb",
    ])
    func `Tags of BCP 47 are well formed`(text: String) { #expect(LanguageTag.breach(text) == nil) }

    @Test(arguments: [
        "e", "x", "english-", "-en", "en--GB", "C", "123", "en GB", "en-GB.UTF-8", "englishes1", "déu", "abcdefghi",
    ])
    func `Others are refused with an example`(text: String) {
        #expect(LanguageTag.breach(text) == "must be a language tag of BCP 47, such as en, en-GB or zh-Hant-TW")
    }

    @Test func `A tag with underscores is refused with what was meant`() {
        #expect(LanguageTag.breach("pt_BR")?.hasSuffix("did you mean pt-BR?") == true)
    }
}
