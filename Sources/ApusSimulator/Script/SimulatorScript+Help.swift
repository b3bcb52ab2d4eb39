internal import ApusCore

extension SimulatorScript {
    /// An example of a script that has every field. A test parses it.
    public static let example = """
        # The same seed strikes the same numbers of requests.
        seed: 7
        # For 429 and 503: form is seconds, date or alternating.
        retry_after: {form: seconds, seconds: 17}

        # Per route (\(FaultRoute.names)): shares of requests, 0 to 1, together at most 1.
        \(Self.lines(\.rates))

        # A quota of messages: so many are accepted in each window, the others are answered with 429. Answers with 429 do not count
        # against it. retry_after (seconds, date, alternating or none) is the form of the time until the next window; default: as above.
        quota: {messages: 600, window_ms: 60000, retry_after: date}

        # Between these times, these rates replace those above; streams is MAX_CONCURRENT_STREAMS meanwhile.
        phases:
        \(Self.lines(\.phase))

        # Single faults of the next requests, or of those with a text in their path. They take precedence over all shares.
        scripts:
        \(Self.lines(\.scripts))

        # Certificates of the listeners: \(SimulatedProviders.listed(CertificateForm.allCases.map(\.rawValue))).
        tls: {\(SimulatedProviders.all.map { "\($0.traits.provider.name): valid" }.joined(separator: ", "))}

        # Events of tokens, in milliseconds after the start: dies_ms (unregistered since that time), expires_ms, spoils_ms (invalid),
        # defects_ms (of another app), returns_ms; rotates_ms with rotates_to: it dies when the other one becomes valid.
        tokens:
        \(Self.lines(\.token))
        """

    private static func lines(_ part: (ScriptExample) -> String) -> String {
        SimulatedProviders.all.map { part($0.traits.example) }.joined(separator: "\n")
    }

    /// The example, with instructions in comments: a complete script.
    public static let help = """
        \(Self.example)

        # How to test a client of a provider with it: `apus-lab simulate --script FILE --folder DIR` writes ca.pem and the keys and accounts
        # of the apps, and prints the ports. Point the client there, trust ca.pem, send, and read the received requests at
        # the control port: GET /ledger, /sends and /summary. Every refusal has an explanation in a header, apus-simulator.
        # Reasons and statuses are those that the providers document; the order of checks is the simulator's own, so do not rely
        # on it. `apus-lab simulate --script FILE --check` names the line and field that is wrong.
        """
}
