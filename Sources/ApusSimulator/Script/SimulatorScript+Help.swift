internal import ApusCore

extension SimulatorScript {
    /// An example of a script that has every field. A test parses it.
    public static let example = """
        # The same seed strikes the same numbers of requests.
        seed: 7
        # Beside 429 and 503: form is seconds, date or alternating.
        retry_after: {form: seconds, seconds: 17}

        # Per route (\(FaultRoute.names)): shares of requests, 0 to 1, together at most 1.
        \(Self.lines(\.rates))

        # Where messages have a quota: so many are accepted in each window, the rest is answered with 429. What is answered with 429 uses
        # nothing up. retry_after (seconds, date, alternating or none) is the form of the time until the next window; without, as above.
        quota: {messages: 600, window_ms: 60000, retry_after: date}

        # From then until then these rates take the place of those above; streams is MAX_CONCURRENT_STREAMS meanwhile.
        phases:
        \(Self.lines(\.phase))

        # Single faults of the next requests, or of those with a text in their path. They come before all shares.
        scripts:
        \(Self.lines(\.scripts))

        # Certificates of the listeners: \(SimulatedProviders.listed(CertificateForm.allCases.map(\.rawValue))).
        tls: {\(SimulatedProviders.all.map { "\($0.traits.provider.name): valid" }.joined(separator: ", "))}

        # Events of tokens, in milliseconds after the start: dies_ms (unregistered since that time), expires_ms, spoils_ms (invalid),
        # defects_ms (of another app), returns_ms; rotates_ms with rotates_to: it dies as the other one is born.
        tokens:
        \(Self.lines(\.token))
        """

    private static func lines(_ part: (ScriptExample) -> String) -> String {
        SimulatedProviders.all.map { part($0.traits.example) }.joined(separator: "\n")
    }

    /// The example, and in comments how to use it: a script as it stands.
    public static let help = """
        \(Self.example)

        # How to test a client of a provider with it: `apus-lab simulate --script FILE --folder DIR` writes ca.pem and the keys and accounts
        # of the apps, and prints the ports. Point the client there, trust ca.pem, send, and read what arrived at
        # the control port: GET /ledger, /sends and /summary. Every refusal has an explanation in a header, apus-simulator.
        # Reasons and statuses are those that the providers document; the order of checks is the simulator's own, so do not rely
        # on it. `apus-lab simulate --script FILE --check` names the line and field that is wrong.
        """
}
