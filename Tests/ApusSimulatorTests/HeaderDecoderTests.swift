import ApusCore
import ApusSimulator
import Testing

@Suite struct HeaderDecoderTests {
    private func decode(_ decoder: inout HeaderDecoder, _ hexadecimal: String) throws -> Bool {
        let bytes = try #require(Hexadecimal.decode(hexadecimal.filter { $0 != " " }))
        return decoder.decode(bytes.span)
    }

    private func path(_ decoder: HeaderDecoder) -> String { String(decoding: decoder.path, as: UTF8.self) }

    /// RFC 7541 Appendix C.3: requests without Huffman coding.
    @Test func plainRequestsOfTheStandard() throws {
        var decoder = HeaderDecoder()
        #expect(try self.decode(&decoder, "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d"))
        #expect(self.path(decoder) == "/")
        #expect(decoder.tableBytes == 57)
        #expect(try self.decode(&decoder, "8286 84be 5808 6e6f 2d63 6163 6865"))
        #expect(decoder.tableBytes == 110)
        #expect(
            try self.decode(
                &decoder,
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            )
        )
        #expect(self.path(decoder) == "/index.html")
        #expect(decoder.tableBytes == 164)
    }

    /// RFC 7541 Appendix C.4: the same with Huffman coding.
    @Test func codedRequestsOfTheStandard() throws {
        var decoder = HeaderDecoder()
        #expect(try self.decode(&decoder, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff"))
        #expect(decoder.tableBytes == 57)
        #expect(try self.decode(&decoder, "8286 84be 5886 a8eb 1064 9cbf"))
        #expect(decoder.tableBytes == 110)
        #expect(try self.decode(&decoder, "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf"))
        #expect(decoder.tableBytes == 164)
    }

    /// RFC 7541 Appendix C.2.2: a literal path without indexing.
    @Test func aLiteralPath() throws {
        var decoder = HeaderDecoder()
        #expect(try self.decode(&decoder, "040c 2f73 616d 706c 652f 7061 7468"))
        #expect(self.path(decoder) == "/sample/path")
        #expect(decoder.tableBytes == 0)
    }

    @Test func keptPathsAndIDsComeBackByTheirNumber() throws {
        var decoder = HeaderDecoder(idHeader: "apns-id")
        // :path kept, then apns-id kept under a literal name.
        #expect(try self.decode(&decoder, "44 022f61" + "40 07 61706e732d6964 02 3132"))
        #expect(self.path(decoder) == "/a")
        #expect(decoder.id == Array("12".utf8))
        #expect(try self.decode(&decoder, "bf"))
        #expect(self.path(decoder) == "/a")
        #expect(decoder.id.isEmpty)
        // The name of entry 62, apns-id, with another value.
        #expect(try self.decode(&decoder, "0f2f 02 3334"))
        #expect(decoder.id == Array("34".utf8))
    }

    @Test func theTableForgetsTheOldest() throws {
        var decoder = HeaderDecoder()
        #expect(try self.decode(&decoder, "44 022f61"))
        #expect(decoder.tableBytes == 39)
        #expect(try self.decode(&decoder, "3f07"))  // 38 bytes
        #expect(decoder.tableBytes == 0)
        #expect(try !self.decode(&decoder, "be"))
    }

    @Test(arguments: [
        "80",  // entry 0
        "be",  // an entry of an empty table
        "7f",  // an integer without its end
        "04 05 2f",  // a string without its end
        "04",  // no string
        "ff ffffffffff",  // an integer beyond all bounds
        "3fe2ff03",  // a table larger than was offered
        "04 81 00",  // padding of zeros
        "04 84 ffffffff",  // EOS in a text
    ])
    func brokenBlocksAreRefused(_ block: String) throws {
        var decoder = HeaderDecoder()
        #expect(try !self.decode(&decoder, block))
    }
}
