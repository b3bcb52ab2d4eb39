extension SimulatorScript {
    /// What a script may say: an example that holds every field. A test reads it.
    public static let example = """
        # The same seed strikes the same numbers of requests.
        seed: 7
        # Beside 429 and 503: form is seconds, date or alternating.
        retry_after: {form: seconds, seconds: 17}

        # Per route (apns, fcm, oauth): shares of requests, 0 to 1, together at most 1.
        apns:
          too_many_requests: 0.01   # 429
          unavailable: 0.01         # 503
          internal_error: 0.01      # 500
          refusal: 0.01             # REFUSED_STREAM: not looked at
          silence: 0.001            # taken, never answered
          drop: 0.001               # taken, then the connection breaks
          half_body: 0.001          # half of the answer's body, then nothing
          reasons:                  # the provider's own words, each with its status
            BadDeviceToken: 0.02
            ExpiredProviderToken: 0.001
          answers:                  # any other, word for word
            - {status: 400, body: '{"reason": "OfTomorrow"}', share: 0.001}
          delay_ms: 5               # each answer takes that long
          jitter_ms: 10             # and up to that much longer
          slow: 0.01                # this share takes
          slow_ms: 10000            # that much longer
          go_away_after: 1000       # requests of a connection
          go_away_every_ms: 30000   # and its age
          go_away_reason: Shutdown  # in GOAWAY's debug data
          go_away_last: before      # this (answered), before (this one unprocessed) or none (0; as before, while accepted ones wait)
        fcm:
          reasons: {SENDER_ID_MISMATCH: 0.01, THIRD_PARTY_AUTH_ERROR: 0.001, BAD_GATEWAY: 0.001}
        oauth:
          reasons: {invalid_grant: 0.1}

        # Google takes so many messages in each window, then answers 429 until the next begins. What is answered with 429 uses nothing
        # up. retry_after (seconds, date, alternating or none) says how the time until then is told; without, as above.
        quota: {messages: 600, window_ms: 60000, retry_after: date}

        # From then until then these rates hold in place of the above; streams is MAX_CONCURRENT_STREAMS meanwhile.
        phases:
          - {from_ms: 10000, until_ms: 20000, streams: 5, apns: {unavailable: 1}}
          - {from_ms: 60000, fcm: {delay_ms: 200, answers: [{status: 500, body: "", share: 0.5}]}}

        # The next requests, or those with a text in their path, before all lots.
        scripts:
          - {route: apns, path: "0a1b", count: 2, fault: silence}
          - {route: fcm, fault: {reason: QUOTA_EXCEEDED}}
          - {route: fcm, fault: {status: 502, body: "<html>"}}
          # What Instance ID says of tokens that hold a text (without: of all) in the next batch for a topic.
          - {route: fcm, fault: {result: RESOURCE_EXHAUSTED, token: "old"}}

        # Certificates of the listeners: valid, expired or wrong_name.
        tls: {apns: valid, fcm: valid}

        # What becomes of tokens, in milliseconds after the start: dies_ms (410 with that time), expires_ms, spoils_ms (bad),
        # defects_ms (of another app), returns_ms; rotates_ms with rotates_to lets it die as the other one is born.
        tokens:
          - {provider: apns, token: "00fc13ad", dies_ms: 5000, returns_ms: 60000}
          - {provider: fcm, token: "old", rotates_ms: 5000, rotates_to: "new"}
        """

    /// The example and, in comments, where to go on from it: a script as it stands.
    public static let help = """
        \(Self.example)

        # How to test a client of APNs or FCM with it: `apus simulate --script FILE --folder DIR` writes ca.pem, a key for APNs and
        # a service account for FCM, and prints the ports. Point the client there, trust ca.pem, send, and read what arrived at
        # the control port: GET /ledger, /sends and /summary. Every refusal carries its reason in a header, apus-simulator.
        # The words and statuses are Apple's and Google's documented ones; the order of checks is the simulator's own, so
        # rely on none. `apus simulate --script FILE --check` names the line and field that is wrong.
        """
}
