//! A real browser: Debian's `chromium` without a window, driven by the DevTools protocol over a pipe.

use cabrank_checks_harness::server::runtime;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Starts the browser, which reads commands from descriptor 3 and writes answers to descriptor 4. It refuses to run
/// as root with its sandbox; the check's own page needs none. One that hangs ends, so that each read ends.
const START: &str = r#"exec timeout 180 chromium --headless --no-sandbox --no-proxy-server \
    --remote-debugging-pipe --user-data-dir="$PROFILE" 3<&0 4>&1 2>"$PROFILE/errors""#;

/// Its last command. The others have numbers from 1.
const CLOSE: &[u8] = b"{\"id\":0,\"method\":\"Browser.close\"}\0";

/// A browser that shows one page. It ends when it is dropped.
pub(crate) struct Browser {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u64,
    /// The page's part of the protocol.
    session: Value,
    profile: tempfile::TempDir,
}

impl Browser {
    /// Returns whether there is a browser on this machine.
    pub(crate) fn is_installed() -> bool {
        let found = Command::new("sh").args(["-c", "command -v chromium >/dev/null"]).status();
        found.is_ok_and(|status| status.success())
    }

    /// Starts a browser, and opens a page.
    pub(crate) fn open(url: &str) -> Result<Browser, String> {
        let profile = runtime()?;
        let mut command = Command::new("sh");
        command.args(["-c", START]).env("PROFILE", profile.path());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = child.map_err(|e| format!("chromium: {e}"))?;
        let (input, output) = process.stdin.take().zip(process.stdout.take()).ok_or("no pipe")?;
        let (output, session) = (BufReader::new(output), Value::Null);
        let mut browser = Browser { process, input, output, calls: 0, session, profile };
        let page = browser.call("Target.createTarget", json!({ "url": url }))?;
        let page = json!({ "targetId": page["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", page)?["sessionId"].take();
        Ok(browser)
    }

    /// Returns the text that the page shows.
    pub(crate) fn text(&mut self) -> Result<String, String> {
        let script = json!({ "expression": "document.documentElement.innerText" });
        let outcome = self.call("Runtime.evaluate", script)?;
        let text = outcome["result"]["value"].as_str();
        text.map(str::to_owned).ok_or_else(|| outcome.to_string())
    }

    /// Calls a method of the protocol. Events before its answer are skipped.
    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": parameters });
        if !self.session.is_null() {
            call["sessionId"] = self.session.clone();
        }
        let sent = self.input.write_all(format!("{call}\0").as_bytes());
        sent.map_err(|e| self.failure(&e.to_string()))?;
        loop {
            let mut message = Vec::new();
            let read = self.output.read_until(0, &mut message);
            read.map_err(|e| self.failure(&e.to_string()))?;
            if message.pop().is_none() {
                return Err(self.failure("it has ended"));
            }
            let mut message: Value = serde_json::from_slice(&message)
                .map_err(|e| format!("a message of the browser: {e}"))?;
            if message["id"] == self.calls {
                return match message["result"].take() {
                    Value::Null => Err(format!("{method}: {}", message["error"])),
                    result => Ok(result),
                };
            }
        }
    }

    /// Returns an error with what the browser has printed.
    fn failure(&self, error: &str) -> String {
        let printed = std::fs::read_to_string(self.profile.path().join("errors"));
        format!("chromium: {error}: {}", printed.unwrap_or_default())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // One that has ended already takes no command.
        let _ = self.input.write_all(CLOSE);
        let _ = self.process.wait();
    }
}
