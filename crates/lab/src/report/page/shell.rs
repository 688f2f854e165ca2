//! The frame of a page: style, charts library, script. No address in it is ever fetched, and the page says so itself by
//! its content security policy.

use super::html::escaped;

/// Apache ECharts; see assets/NOTICE.
const ECHARTS: &str = include_str!("../../../assets/echarts.min.js");
const STYLE: &str = include_str!("../../../assets/report.css");
/// Drawing of each shape of chart, and the switch of themes: the report's and the live page's.
const CHARTS: &str = include_str!("../../../assets/charts.js");

#[derive(Debug)]
pub(crate) struct Shell<'a> {
    pub title: &'a str,
    pub body: &'a str,
    /// JSON for the script, already fit for a script element.
    pub data: &'a str,
    /// Script of the charts; without one, the page has no charts.
    pub script: &'a str,
    /// The page receives events from its server: the live page.
    pub live: bool,
}

pub(crate) fn shell(page: &Shell<'_>) -> String {
    let connect = if page.live { " connect-src 'self';" } else { "" };
    let library = if page.script.is_empty() { "" } else { ECHARTS };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:;{connect} base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <button id=\"theme\" type=\"button\">Theme: auto</button>\n{}\
         <footer>arbor lab. Charts by Apache ECharts 6.1.0, Apache License 2.0.</footer>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>{library}</script>\n\
         <script>{CHARTS}</script>\n<script>{}</script>\n</body>\n</html>\n",
        escaped(page.title),
        page.body,
        page.data,
        page.script,
    )
}
