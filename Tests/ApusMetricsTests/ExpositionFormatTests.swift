import ApusMetrics
import Testing

@Suite struct ExpositionFormatTests {
    @Test(
        arguments: [
            (nil, ExpositionFormat.prometheusText),
            ("", .prometheusText),
            ("*/*", .prometheusText),
            ("text/html", .prometheusText),
            ("application/openmetrics-text", .openMetrics),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", .openMetrics),
            ("application/openmetrics-text;version=0.0.1", .prometheusText),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.4", .prometheusText),
            ("text/plain;q=0.2, application/openmetrics-text;q=0.4", .openMetrics),
            ("application/openmetrics-text;q=0, */*;q=0.1", .prometheusText),
            ("APPLICATION/OpenMetrics-Text;Version=\"1.0.0\"", .openMetrics),
            // Prometheus 2.42.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                    + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", .openMetrics
            ),
            // Prometheus 3.
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                    + "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
                    + "text/plain;version=0.0.4;q=0.2,*/*;q=0.1", .openMetrics
            ),
            ("application/openmetrics-text;q=nan", .prometheusText),
        ] as [(String?, ExpositionFormat)]
    )
    func theKnownTypeOfHighestWeightIsChosen(accept: String?, format: ExpositionFormat) {
        #expect(ExpositionFormat.negotiated(accept: accept) == format)
    }
}
