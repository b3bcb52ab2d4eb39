internal import ApusCore

/// Describes an act that cannot be undone, or that reaches many, as a person is asked about it.
struct Confirmation: Sendable {
    /// The question, which is the heading of the page.
    var question: String
    /// The consequence of the act, in a sentence.
    var consequence: String
    /// The words on the button.
    var words: String
    /// True when the act removes something, or ends it for good.
    var isDestructive = true
    /// The object of the act, such as a message as devices would show it.
    var details: HTML = .none
}

/// Draws the page between a form and an act that cannot be undone. It needs no script. It is pure.
struct ConfirmationView {
    /// The name of the field that says that the question was answered.
    static let field = "confirmed"

    let viewer: Viewer
    /// The page whose form was sent.
    let path: ConsolePath
    /// The form, which is sent again with the answer.
    let fields: FormFields
    let confirmation: Confirmation

    /// Returns true when a form carries the answer.
    static func isConfirmed(_ fields: FormFields) -> Bool { fields[Self.field] == "yes" }

    var page: Page {
        var page = Page(self.confirmation.question, self.path.page)
        let again = self.fields.pairs.filter { !["form_token", "action", Self.field].contains($0.name) }
        let hidden = again.map { "<input type=\"hidden\" name=\"\($0.name)\" value=\"\($0.value)\">" as HTML }
        page.body = """
            <form class="sheet" method="post" action="\(self.path.text)">
            <input type="hidden" name="form_token" value="\(self.viewer.session?.formToken ?? "")">\(hidden)\
            <input type="hidden" name="\(Self.field)" value="yes">
            <p>\(self.confirmation.consequence)</p>
            <div class="controls"><button class="\(self.confirmation.isDestructive ? "danger" : "")" name="action" value="\(self.fields["action"])">\
            \(self.confirmation.words)</button>\(self.back)</div>
            <p class="hint">Nothing has been done yet.</p>
            </form>
            \(self.confirmation.details)
            """
        return page
    }

    /// The way back: a link, or for a composed message a button, so that what was written is kept.
    private var back: HTML {
        if self.path.page == .compose {
            return "<button class=\"quiet\" name=\"action\" value=\"preview\">Change it</button>"
        }
        return "<a class=\"button quiet\" href=\"\(self.path.text)\">Go back</a>"
    }
}
