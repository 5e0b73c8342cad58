//! A browser without a screen, driven over WebDriver: JSON over HTTP to the `chromedriver` that comes with it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::support::http::send;
use super::support::{scratch, wait_for};

const ARGUMENTS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
    "--no-first-run",
];

/// How WebDriver marks an element among values.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Sees what the page was not allowed to do, from its first line on.
const WATCH_POLICY: &str = "window.violations = [];
    addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));";

/// Keys that are no letters.
pub(super) const TAB: &str = "\u{e004}";
pub(super) const ENTER: &str = "\u{e007}";
pub(super) const ESCAPE: &str = "\u{e00c}";

/// A browser with one window; both programs end when it is dropped.
pub(super) struct Browser {
    driver: Child,
    /// Where both keep theirs, and leave some of it.
    _files: tempfile::TempDir,
    addr: SocketAddr,
    session: String,
    /// Where the pages come from.
    origin: String,
}

impl Browser {
    /// Opens a page of the broker or of whoever listens at `site`. `None`, with a line that says so, where there is no browser.
    pub(super) fn open(site: SocketAddr, page: &str) -> Option<Self> {
        let Some((browser, driver)) = programs() else {
            eprintln!(
                "SKIPPED: chromium and chromedriver are not installed, so no page was looked at"
            );
            return None;
        };
        let (files, _) = scratch();
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .env("TMPDIR", files.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let port =
                line.unwrap().split_once("successfully on port ")?.1.trim_end_matches('.').parse();
            Some(port.unwrap())
        });
        // What it says later is not read: so that it can go on saying it.
        std::thread::spawn(move || lines.for_each(drop));
        let addr: SocketAddr = ([127, 0, 0, 1], port.expect("the port of chromedriver")).into();
        let mut this = Self {
            driver,
            _files: files,
            addr,
            session: String::new(),
            origin: format!("http://{site}"),
        };
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "binary": browser, "args": ARGUMENTS },
        } } });
        let session = this.ask("POST", "", &wanted);
        this.session = format!("/{}", session["sessionId"].as_str().unwrap());
        this.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": WATCH_POLICY }));
        this.size(1280, 900);
        this.go(page);
        Some(this)
    }

    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let answer = send(self.addr, method, &format!("/session{}{path}", self.session), body);
        let value = answer.json()["value"].take();
        if answer.status == 200 { Ok(value) } else { Err(value) }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_ask(method, path, body).unwrap_or_else(|error| {
            panic!("{method} {path} {body}: {}\n{}", error["message"], self.text("body"))
        })
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.ask("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Goes to a page by what stands behind the `#`.
    pub(super) fn go(&self, page: &str) {
        self.ask("POST", "/url", &json!({ "url": format!("{}/{page}", self.origin) }));
    }

    pub(super) fn back(&self) {
        self.ask("POST", "/back", &json!({}));
    }

    pub(super) fn reload(&self) {
        self.ask("POST", "/refresh", &json!({}));
    }

    /// What a script returns.
    pub(super) fn script(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        // Not by `ask`, which tells of a failure by a script.
        self.try_ask("POST", "/execute/sync", &body).unwrap_or_else(|e| panic!("{script}: {e}"))
    }

    /// Waits until a script returns something that counts as true.
    pub(super) fn wait_until(&self, script: &str) {
        let shown = || {
            format!("{script}, on this page:\n{}", self.script("return document.body.innerText"))
        };
        let mut tries = 0;
        let met = || {
            tries += 1;
            // Some of the pages are drawn again every second; one look in between may be too early.
            let value = self.script(script);
            let is_true = !matches!(value, Value::Null | Value::Bool(false))
                && value != json!(0)
                && value != json!("");
            is_true.then_some(())
        };
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_for("the page", met)));
        assert!(outcome.is_ok(), "waited in vain for {}", shown());
    }

    /// Waits until the page shows a text.
    pub(super) fn wait_for_text(&self, text: &str) {
        self.wait_until(&format!("return document.body.innerText.includes({})", json!(text)));
    }

    /// The text of the first element that fits; empty if none does.
    pub(super) fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({})?.innerText ?? ''", json!(selector));
        self.script(&script).as_str().unwrap().to_owned()
    }

    pub(super) fn count(&self, selector: &str) -> u64 {
        self.script(&format!("return document.querySelectorAll({}).length", json!(selector)))
            .as_u64()
            .unwrap()
    }

    /// The first element that fits, once it is there.
    fn find(&self, using: &str, value: &str) -> String {
        let body = json!({ "using": using, "value": value });
        let what = format!("{value} on {}", self.text("dialog[open], main"));
        wait_for(&what, || {
            let found = self.try_ask("POST", "/element", &body).ok()?;
            Some(found[ELEMENT].as_str().unwrap().to_owned())
        })
    }

    fn click_on(&self, using: &str, value: &str) {
        // One that was replaced or is still covered is looked for again.
        wait_for(&format!("{value} to take a click"), || {
            let element = self.find(using, value);
            self.try_ask("POST", &format!("/element/{element}/click"), &json!({})).ok()
        });
    }

    /// Clicks as a person does: where the element is, if nothing covers it.
    pub(super) fn click(&self, selector: &str) {
        self.click_on("css selector", selector);
    }

    /// Clicks on a button by its words: in the dialog, if one is open.
    pub(super) fn press(&self, words: &str) {
        let scope = if self.count("dialog[open]") > 0 { "//dialog[last()]" } else { "" };
        self.click_on("xpath", &format!("{scope}//button[normalize-space()='{words}']"));
    }

    /// Writes into a field, in place of what is there.
    pub(super) fn fill(&self, selector: &str, text: &str) {
        let element = self.find("css selector", selector);
        self.ask("POST", &format!("/element/{element}/clear"), &json!({}));
        self.ask("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Takes a choice.
    pub(super) fn choose(&self, selector: &str, value: &str) {
        self.click(&format!("{selector} option[value='{value}']"));
    }

    /// Presses keys, wherever the focus is.
    pub(super) fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        self.ask(
            "POST",
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// The words of what has the focus.
    pub(super) fn focused(&self) -> String {
        let script = "const it = document.activeElement;
            return it.getAttribute('aria-label') ?? it.labels?.[0]?.innerText ?? it.innerText ?? ''";
        self.script(script).as_str().unwrap().to_owned()
    }

    /// Makes the window so large, in CSS pixels.
    pub(super) fn size(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Has the system prefer `dark` or `light`.
    pub(super) fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Lets the page write to the clipboard without asking.
    pub(super) fn allow_copying(&self) {
        let what = json!({ "origin": self.origin, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
        self.devtools("Browser.grantPermissions", &what);
    }

    /// Keeps a picture in the directory that `HERMITMQ_SCREENSHOTS` names, for people to look at.
    pub(super) fn picture(&self, name: &str) {
        use base64::Engine as _;
        let Some(dir) = std::env::var_os("HERMITMQ_SCREENSHOTS").map(PathBuf::from) else { return };
        let png = self.ask("GET", "/screenshot", &Value::Null);
        let png = base64::engine::general_purpose::STANDARD.decode(png.as_str().unwrap()).unwrap();
        std::fs::write(dir.join(format!("{name}.png")), png).unwrap();
    }

    /// What the console has complained about since the last look. Answers that are errors are among it.
    pub(super) fn complaints(&self) -> Vec<String> {
        let entries = self.ask("POST", "/se/log", &json!({ "type": "browser" }));
        let bad = entries.as_array().unwrap().iter().filter(|entry| entry["level"] != "INFO");
        bad.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The page has done nothing that it may not, and has complained about nothing.
    pub(super) fn assert_clean(&self) {
        assert_eq!(self.complaints(), Vec::<String>::new());
        assert_eq!(self.script("return window.violations"), json!([]));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.try_ask("DELETE", "", &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The browser and its driver.
fn programs() -> Option<(PathBuf, PathBuf)> {
    let find = |name: &str| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
    };
    Some((find("chromium").or_else(|| find("google-chrome"))?, find("chromedriver")?))
}
