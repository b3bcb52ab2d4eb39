internal import ApusCore

/// `consoles/apus.html`: a page that Prometheus serves by itself. Tables first, then the dashboards, drawn from the very JSON that
/// Grafana imports, by a script without any library. It is also how dashboards are looked at where there is no Grafana.
enum ConsolePage {
    /// The whole page.
    static var html: String {
        let tables = ConsoleTable.all.map(\.template).joined()
        let dashboards = JSONValue.array(Dashboard.all.map(\.json)).text
        return String(decoding: PackageResources.console_html, as: UTF8.self)
            .filled("STYLE", with: String(decoding: PackageResources.console_css, as: UTF8.self))
            .filled("TABLES", with: tables)
            .filled("DASHBOARDS", with: self.inert(dashboards))
            .filled("SCRIPT", with: String(decoding: PackageResources.console_js, as: UTF8.self))
    }

    /// JSON in which nothing is left that the template language, or HTML, could take for its own.
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
    /// Puts a text in the place of `<!--NAME-->`.
    fileprivate func filled(_ name: String, with text: String) -> String {
        let mark = "<!--\(name)-->"
        precondition(self.contains(mark), "the page has no \(mark)")
        return self.replacing(mark, with: text, maxReplacements: 1)
    }
}
