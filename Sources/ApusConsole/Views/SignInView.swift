internal import ApusCore

/// Draws the form for signing in. It is pure.
struct SignInView {
    /// The page to go to afterwards.
    let next: String
    /// The app that the form names at first.
    let app: String

    var page: Page {
        var page = Page("Sign in")
        page.body = """
            <form class="sheet" method="post" action="/sign-in">
            <input type="hidden" name="next" value="\(self.next)">
            <p>Show an API key of the role <strong>admin</strong>. It lets you change what belongs to its app, and everything you do \
            is entered in the audit trail under the key's name.</p>
            <div><label for="sign-in-app">App</label>
            <input id="sign-in-app" name="app" value="\(self.app)" required maxlength="32" autocomplete="username" autocapitalize="none" spellcheck="false"></div>
            <div><label for="key">API key</label>
            <input id="key" name="key" type="password" required maxlength="200" autocomplete="current-password"></div>
            <button>Sign in</button>
            <p class="hint">A key is made by <code>apus key create --app APP --role admin NAME</code>, which shows it once.</p>
            </form>
            """
        return page
    }
}
