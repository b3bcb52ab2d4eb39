internal import CApusTexts

/// Lists the texts that the programs carry: files of the repository, as they were when the program was built.
public enum EmbeddedText {
    /// The functions in Redis that keep the devices, in the order in which they must stand.
    public static let storeFunctions = unsafe Self.bytes(apus_text_store_functions())
    /// The functions in Redis for sends and their streams, in the order in which they must stand.
    public static let streamFunctions = unsafe Self.bytes(apus_text_stream_functions())
    /// The description of the HTTP API in OpenAPI 3.1.
    public static let openAPI = unsafe Self.bytes(apus_text_open_api())
    /// The page of Prometheus' console, in HTML.
    public static let dashboardsPage = unsafe Self.bytes(apus_text_dashboards_page())
    /// The style of that page, in CSS.
    public static let dashboardsStyle = unsafe Self.bytes(apus_text_dashboards_style())
    /// The script of that page, in JavaScript.
    public static let dashboardsScript = unsafe Self.bytes(apus_text_dashboards_script())
    /// The style of the operators' console, in CSS.
    public static let consoleStyle = unsafe Self.bytes(apus_text_console_style())
    /// The script of the operators' console, in JavaScript.
    public static let consoleScript = unsafe Self.bytes(apus_text_console_script())
    /// The icon of the operators' console, in SVG.
    public static let consoleIcon = unsafe Self.bytes(apus_text_console_icon())

    private static func bytes(_ text: apus_text) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: text.bytes, count: text.count))
    }
}
