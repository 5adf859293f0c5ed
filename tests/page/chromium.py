"""Drives a real Chromium over --remote-debugging-pipe, with nothing but Python's library.

Messages are JSON and end with a NUL; the browser reads them from its descriptor 3 and writes
to 4. Nothing here sleeps: conditions are polled within the page, or events are waited for,
until a deadline.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

SECONDS = 180  # of whatever is waited for: a guard against hangs, no measure of the machine


class Failed(AssertionError):
    """What was expected has not happened."""


class Browser:
    """A browser without a window, with a profile of its own that is removed again."""

    def __init__(self, *options):
        self._profile = tempfile.mkdtemp(prefix="gd-chromium-")
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        command = [
            "chromium",
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile}",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-gpu",
            "--disable-sync",
            "--force-device-scale-factor=1",
            "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            *options,
            "about:blank",
        ]
        if os.geteuid() == 0:  # its sandbox does not work for root
            command.insert(1, "--no-sandbox")
        self._log = open(os.path.join(self._profile, "stderr"), "w+b")
        self._process = subprocess.Popen(
            ["bash", "-c", 'in=$1 out=$2; shift 2; exec "$@" 3<&"$in" 4>&"$out"', "bash",
             str(read_commands), str(write_answers), *command],
            pass_fds=(read_commands, write_answers), stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=self._log, start_new_session=True)
        os.close(read_commands)
        os.close(write_answers)
        self._unread = bytearray()
        self._last = 0
        self._replies = {}
        self.pages = {}
        try:
            self.version = self.call("Browser.getVersion")["product"]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends it, and all that it has started."""
        os.close(self._commands)  # it ends by itself
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._answers)
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def page(self):
        """A new tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, target, session)

    def call(self, method, session=None, seconds=SECONDS, **params):
        """A command's result."""
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data):]
        end = time.monotonic() + seconds
        while number not in self._replies:
            if not self.read(end - time.monotonic()):
                raise Failed(f"{method}: no answer from Chromium\n{self._said()}")
        reply = self._replies.pop(number)
        if "error" in reply:
            raise Failed(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def read(self, seconds):
        """Takes what the browser has written; False: nothing, in so many seconds."""
        if not select.select([self._answers], [], [], max(seconds, 0))[0]:
            return False
        data = os.read(self._answers, 1 << 20)
        if not data:
            raise Failed(f"Chromium has ended\n{self._said()}")
        self._unread += data
        *messages, rest = self._unread.split(b"\0")
        self._unread = bytearray(rest)
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._replies[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].heard(message["method"], message["params"])
        return True

    def _said(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]


# Whether an expression holds, asked again and again in the page.
POLL = """
new Promise((resolve, reject) => {
  const end = performance.now() + %d;
  const look = () => {
    let found;
    try { found = (() => %s)(); } catch (error) { return reject(error); }
    if (found) resolve(found === true ? true : JSON.stringify(found));
    else if (performance.now() > end) resolve(false);
    else setTimeout(look, 10);
  };
  look();
})
"""


class Page:
    """A tab. What it complains of is kept in `complaints`: each is a failure of the test."""

    def __init__(self, browser, target, session):
        self._browser = browser
        self._target = target
        self._session = session
        self.complaints = []
        self.requests = []
        self.dialogs = []
        self.tolerated = []
        browser.pages[session] = self
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(domain + ".enable")
        self.size(1280, 800)

    def call(self, method, **params):
        return self._browser.call(method, session=self._session, **params)

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)
        del self._browser.pages[self._session]

    def heard(self, method, params):
        """Keeps what an event says."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            said = details.get("exception", {}).get("description", "")
            self._complain(f"exception: {details['text']} {said}")
        elif method == "Runtime.consoleAPICalled":
            if params["type"] in ("error", "warning", "assert"):
                said = [str(x.get("value", x.get("description"))) for x in params["args"]]
                self._complain(f"console: {' '.join(said)}")
        elif method == "Log.entryAdded":
            entry = params["entry"]
            if entry["level"] in ("error", "warning"):
                self._complain(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Audits.issueAdded":
            issue = params["issue"]
            if issue["code"] in ("ContentSecurityPolicyIssue", "MixedContentIssue",
                                 "BlockedByResponseIssue", "CookieIssue", "CorsIssue"):
                self._complain(f"issue: {json.dumps(issue)}")
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._complain(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"])
        elif method == "Inspector.targetCrashed":
            self._complain("the tab has crashed")

    def _complain(self, text):
        if not any(x in text for x in self.tolerated):
            self.complaints.append(text)

    # -- what is there ---------------------------------------------------------

    def js(self, expression, seconds=SECONDS):
        """The value of an expression, once it has one if it is a promise."""
        got = self.call("Runtime.evaluate", seconds=seconds, expression=expression,
                        awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in got:
            details = got["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            raise Failed(f"{said}\nin: {expression[:2000]}")
        return got["result"].get("value")

    def until(self, expression, seconds=SECONDS):
        """Waits until an expression is true in the page, also over a reload of it."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                found = self.js(POLL % (max(left, 0) * 1000, expression), seconds + SECONDS)
            except Failed as why:
                gone = ("context was destroyed", "navigated or closed", "Cannot find context")
                if left <= 0 or not any(x in str(why) for x in gone):
                    raise
                continue
            if found is False:
                raise Failed(f"not within {seconds} s: {expression}\n{self.text()[:4000]}\n"
                             f"{self.complaints}")
            return found if found is True else json.loads(found)

    def event(self, true, seconds=SECONDS):
        """Waits until what was heard makes `true()` true."""
        end = time.monotonic() + seconds
        while not true():
            if not self._browser.read(end - time.monotonic()):
                raise Failed(f"not heard within {seconds} s; {self.complaints}")

    def text(self, selector="body"):
        """What can be read there; empty: there is nothing."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def until_text(self, selector, text, seconds=SECONDS):
        self.until(f"[...document.querySelectorAll({json.dumps(selector)})]"
                   f".some(x => x.innerText.includes({json.dumps(text)}))", seconds)

    # -- what a user does ------------------------------------------------------

    def go(self, url):
        got = self.call("Page.navigate", url=url)
        if "errorText" in got:
            raise Failed(f"{url}: {got['errorText']}")
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        """dark or light."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def click(self, selector):
        """With the mouse, in the middle of the first one that there is, which has to be on top."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        x, y, hit = self.js(f"""(() => {{
          const to = document.querySelector({json.dumps(selector)});
          to.scrollIntoView({{block: 'center', inline: 'center', behavior: 'instant'}});
          const box = to.getBoundingClientRect();
          const x = box.left + box.width / 2, y = box.top + box.height / 2;
          const there = document.elementFromPoint(x, y);
          return [x, y, there !== null && (to.contains(there) || there.contains(to))];
        }})()""")
        if not hit:
            raise Failed(f"{selector} is covered, or not to be seen")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      clickCount=1)

    def fill(self, selector, text):
        """Types a text into a field, in the place of what is there."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.js(f"(() => {{ const x = document.querySelector({json.dumps(selector)});"
                " x.focus(); x.select?.(); })()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.key("Backspace")

    def choose(self, selector, value):
        """An option of a select element."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.js(f"""(() => {{
          const x = document.querySelector({json.dumps(selector)});
          x.value = {json.dumps(value)};
          if (x.value !== {json.dumps(value)}) throw new Error('no such option');
          x.dispatchEvent(new Event('input', {{bubbles: true}}));
          x.dispatchEvent(new Event('change', {{bubbles: true}}));
        }})()""")

    def key(self, *keys):
        """Presses keys, one after the other."""
        codes = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "Backspace": (8, ""),
                 " ": (32, " "), "ArrowDown": (40, ""), "ArrowUp": (38, "")}
        for key in keys:
            code, text = codes.get(key, (ord(key[0].upper()), key))
            what = {"key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown",
                      text=text, **what)
            self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def picture(self, path):
        """Writes what is to be seen as PNG."""
        got = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(got["data"]))
