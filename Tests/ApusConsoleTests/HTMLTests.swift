import Testing

@testable import ApusConsole

@Suite struct HTMLTests {
    @Test func `Text is escaped wherever it stands, and markup is not`() {
        let text = #"<script>alert("x" & 'y')</script>"#
        let html: HTML = "<p title=\"\(text)\">\(text) \(7)</p>"
        let escaped = "&lt;script&gt;alert(&quot;x&quot; &amp; &#39;y&#39;)&lt;/script&gt;"
        #expect(html.description == "<p title=\"\(escaped)\">\(escaped) 7</p>")
        let parts: [HTML] = ["<b>", "\(text)"]
        let whole: HTML = "\(html)\(parts)"
        #expect(whole.description == html.description + "<b>" + escaped)
        let control: HTML = "\("a\u{0}b\u{1b}c\nd\te\rf\r\ng")"
        #expect(control.description == "a\u{fffd}b\u{fffd}c\nd\te&#13;f&#13;\ng")
    }
}

@Suite struct ServerSentEventTests {
    /// The data of an event as a reader gets it.
    private static func data(of event: String) -> String {
        let lines = event.unicodeScalars.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        return lines.filter { $0.hasPrefix("data: ") }.map { String($0.dropFirst("data: ".count)) }
            .joined(separator: "\n")
    }

    @Test func `However lines end, all of them are data of one event`() {
        for (data, read) in [
            ("", ""), ("a", "a"), ("a\nb", "a\nb"), ("a\rb", "a\nb"), ("a\r\nb", "a\nb"), ("a\r\rb", "a\n\nb"),
            ("a\n\nb\n", "a\n\nb\n"), ("\revent: other\rdata: x", "\nevent: other\ndata: x"),
        ] {
            let event = ServerSentEvent.text("update", data: data)
            #expect(Self.data(of: event) == read, "\(data.debugDescription)")
            #expect(event.hasPrefix("event: update\ndata: ") && event.hasSuffix("\n\n"))
            #expect(!event.unicodeScalars.contains("\r") && !event.dropLast(2).contains("\n\n"))
        }
    }
}

@Suite struct FormFieldsTests {
    @Test func `Fields are read as browsers write them`() throws {
        let fields = try #require(FormFields("a=1&b=%C3%A9+x%26&a=2&empty=&flag".utf8))
        #expect(fields["a"] == "1" && fields.all("a") == ["1", "2"])
        #expect(fields["b"] == "é x&" && fields["empty"] == "" && fields["flag"] == "" && fields["nothing"] == "")
        #expect(FormFields("a=%zz".utf8) == nil && FormFields("a=%C3".utf8) == nil)
        let most = String(repeating: "a=1&", count: FormFields.countMax)
        #expect(FormFields(most.utf8)?.all("a").count == FormFields.countMax)
        #expect(FormFields((most + "a=1").utf8) == nil)
    }

    @Test func `A value comes back from a query as it was`() throws {
        let text = "/apps/shop/sends?x=1&y=é 'ü'"
        #expect(try #require(FormFields("v=\(FormFields.encoded(text))".utf8))["v"] == text)
    }
}
