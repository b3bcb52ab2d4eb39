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
        let control: HTML = "\("a\u{0}b\u{1b}c\nd\te")"
        #expect(control.description == "a\u{fffd}b\u{fffd}c\nd\te")
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
