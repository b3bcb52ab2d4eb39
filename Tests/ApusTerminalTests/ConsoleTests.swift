import Testing

@testable import ApusTerminal

@Suite struct ConsoleTests {
    @Test func `Lines of data are lines, whatever devices have written into them`() {
        let lines = ["app_version       \u{1b}]52;c;eA==\u{7}", "time_zone         UTC\nsuspect"]
        #expect(
            Console.text(of: lines)
                == #"app_version       \u001b]52;c;eA==\u0007"# + "\n" + #"time_zone         UTC\nsuspect"# + "\n"
        )
    }

    @Test func `A table shows foreign text on one line, and as wide as it is then`() {
        var table = TextTable(["NAME", ">COUNT"])
        table.add(["a\nb\u{1b}[2J", "1"])
        #expect(table.lines == ["NAME           COUNT", #"a\nb\u001b[2J      1"#])
    }
}
