internal import ApusCore
internal import ApusTexts

/// The page `consoles/apus.html`, which Prometheus serves. It shows tables first and then the dashboards. A script
/// without libraries draws them from the same JSON that Grafana imports, so the dashboards can be used without Grafana.
enum ConsolePage {
    /// The complete page.
    static var html: String {
        let tables = ConsoleTable.all.map(\.template).joined()
        let dashboards = JSONValue.array(Dashboard.all.map(\.json)).text
        return String(decoding: EmbeddedText.dashboardsPage, as: UTF8.self)
            .filled("STYLE", with: String(decoding: EmbeddedText.dashboardsStyle, as: UTF8.self))
            .filled("TABLES", with: tables)
            .filled("DASHBOARDS", with: self.inert(dashboards))
            .filled("SCRIPT", with: String(decoding: EmbeddedText.dashboardsScript, as: UTF8.self))
    }

    /// Encodes JSON without characters that have a meaning in the template language or in HTML.
    private static func inert(_ json: String) -> String {
        json.reduce(into: "") { text, character in
            switch character {
            case "{" where text.hasSuffix("{"): text += "\\u007b"
            case "<": text += "\\u003c"
            default: text.append(character)
            }
        }
    }
}

extension String {
    /// Replaces `<!--NAME-->` with a text.
    fileprivate func filled(_ name: String, with text: String) -> String {
        let mark = "<!--\(name)-->"
        precondition(self.contains(mark), "the page has no \(mark)")
        return self.replacing(mark, with: text, maxReplacements: 1)
    }
}
