internal import ApusCore
internal import ApusMessages
internal import ApusStreams
internal import ApusTerminal

/// Draws the parts that several pages have. It is pure.
enum Components {
    /// A table. Each row's first cell is its heading.
    ///
    /// - Parameters:
    ///   - caption: the words that name the table to a screen reader.
    ///   - columns: the headings; one that begins with ">" is of a column of numbers.
    static func table(_ caption: String, _ columns: [String], _ rows: [[HTML]], empty: String) -> HTML {
        guard !rows.isEmpty else { return "<p class=\"empty\">\(empty)</p>" }
        func kind(_ index: Int) -> String { columns[index].hasPrefix(">") ? " class=\"number\"" : "" }
        let head = columns.indices.map { index -> HTML in
            let name = columns[index].hasPrefix(">") ? String(columns[index].dropFirst()) : columns[index]
            return "<th scope=\"col\"\(HTML(trusted: kind(index)))>\(name)</th>"
        }
        let body = rows.map { row -> HTML in
            let cells = row.enumerated().map { index, cell -> HTML in
                let kind = HTML(trusted: kind(index))
                return index == 0 ? "<th scope=\"row\"\(kind)>\(cell)</th>" : "<td\(kind)>\(cell)</td>"
            }
            return "<tr>\(cells)</tr>"
        }
        return """
            <div class="scroll" role="region" aria-label="\(caption)" tabindex="0">
            <table><caption class="hidden">\(caption)</caption><thead><tr>\(head)</tr></thead><tbody>\(body)</tbody></table>
            </div>
            """
    }

    /// A list of names and values.
    static func facts(_ pairs: [(String, HTML)]) -> HTML {
        let items = pairs.filter { !$0.1.isEmpty }.map { pair -> HTML in
            "<div><dt>\(pair.0)</dt><dd>\(pair.1)</dd></div>"
        }
        return "<dl class=\"facts\">\(items)</dl>"
    }

    /// A state as a word in a coloured frame; the word says it all, the colour repeats it.
    static func badge(_ word: String, _ kind: String) -> HTML { "<span class=\"badge \(kind)\">\(word)</span>" }

    /// The state of a send.
    static func badge(_ phase: SendStatus.Phase) -> HTML {
        switch phase {
        case .waiting, .scheduled: self.badge(phase.name, "idle")
        case .planning, .running: self.badge(phase.name, "active")
        case .paused: self.badge(phase.name, "warn")
        case .cancelled, .refused: self.badge(phase.name, "fail")
        case .done: self.badge(phase.name, "ok")
        }
    }

    /// A point in time, which a screen reader and a machine can read.
    static func time(_ time: UnixMilliseconds?) -> HTML {
        guard let time else { return .none }
        let text = time.timestamp
        let short = text.replacing("T", with: " ").prefix(19)
        return "<time datetime=\"\(text)\">\(String(short))</time>"
    }

    /// The time that has passed since then.
    static func age(_ time: UnixMilliseconds?, now: UnixMilliseconds) -> HTML {
        guard let time else { return .none }
        return
            "<time datetime=\"\(time.timestamp)\">\(NumberText.age(milliseconds: now.milliseconds(since: time))) ago</time>"
    }

    /// The shares of outcomes as one bar, with words beside it for who does not see it.
    static func bar(_ status: SendStatus) -> HTML {
        let total = max(status.planned, status.closed)
        guard total > 0 else { return "<span class=\"muted\">nobody yet</span>" }
        var (start, parts, words) = (0.0, [HTML](), [String]())
        for outcome in Self.order {
            let count = status.total(outcome)
            guard count > 0 else { continue }
            let share = Double(count) / Double(total) * 100
            if outcome != .open {
                parts.append(
                    "<rect class=\"\(outcome.name)\" x=\"\(Self.percent(start))\" width=\"\(Self.percent(share))\" height=\"100%\"/>"
                )
                start += share
            }
            words.append("\(NumberText.grouped(count)) \(outcome.name)")
        }
        let label = words.joined(separator: ", ")
        return "<svg class=\"bar\" role=\"img\" aria-label=\"\(label)\" preserveAspectRatio=\"none\">\(parts)</svg>"
    }

    /// The outcomes in the order in which they are shown.
    static let order: [Outcome] = [
        .accepted, .unregistered, .rejected, .failed, .expired, .cancelled, .skipped, .open,
    ]

    private static func percent(_ value: Double) -> String { "\(NumberText.decimal(value, 3))%" }

    /// The share of recipients that have their outcome: "42 %", rounded down.
    static func progress(_ status: SendStatus) -> String {
        guard status.planned > 0 else { return status.isOver ? "100 %" : "0 %" }
        return "\(min(100, status.closed * 100 / status.planned)) %"
    }

    /// A line through the last values, and the newest one in words.
    static func sparkline(_ values: [Double], label: String) -> HTML {
        guard values.count > 1, let most = values.max() else {
            return "<p class=\"muted\">A line appears after a few seconds.</p>"
        }
        let points = values.enumerated().map { index, value in
            let x = Double(index) / Double(values.count - 1) * 100
            let y = most > 0 ? 29 - value / most * 28 : 29
            return "\(NumberText.decimal(x, 2)),\(NumberText.decimal(y, 2))"
        }
        return """
            <svg class="spark" role="img" aria-label="\(label)" viewBox="0 0 100 30" preserveAspectRatio="none">\
            <polyline points="\(points.joined(separator: " "))"/></svg>
            """
    }

    /// A form with a button that does something.
    ///
    /// - Parameter fields: hidden fields by name.
    static func act(
        _ viewer: Viewer,
        at path: ConsolePath,
        _ words: String,
        _ fields: [(String, String)],
        kind: String = "",
        inputs: HTML = .none,
    ) -> HTML {
        guard let session = viewer.session else { return .none }
        let hidden = fields.map { field -> HTML in
            "<input type=\"hidden\" name=\"\(field.0)\" value=\"\(field.1)\">"
        }
        return """
            <form class="act" method="post" action="\(path.text)">
            <input type="hidden" name="form_token" value="\(session.formToken)">\(hidden)\(inputs)
            <button class="\(kind)">\(words)</button>
            </form>
            """
    }

    /// The words for a viewer that may look and not act.
    static func readOnly(_ viewer: Viewer, _ app: String, at target: String) -> HTML {
        guard !viewer.mayAct(app) else { return .none }
        return """
            <p class="hint">You are only looking. <a href="/sign-in?next=\(FormFields.encoded(target))">Sign in</a> with an \
            admin key of \(app) to change something.</p>
            """
    }
}

extension HTML {
    /// Creates markup from text of ours that needs no escapes.
    init(trusted text: String) {
        self.init(stringLiteral: text)
    }
}
