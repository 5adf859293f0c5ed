"""What the page's tests do with it, beside what a browser does."""

import json
import os


class Tab:
    """For test cases with a `page`, the `origin` that it is at, and the `server` of the token."""

    def hears_nothing_wrong(self):
        """No error, no dialog, nothing from elsewhere."""
        self.page.js("1")  # what it has still to say
        self.assertEqual(self.page.complaints, [])
        self.assertEqual(self.page.dialogs, [])
        for request in self.page.requests:
            self.assertTrue(request["url"].startswith((self.origin, "data:")), request["url"])

    def visit(self, route="#/"):
        self.page.go(self.origin + route)
        self.drawn()

    def drawn(self):
        self.page.until("(x => x.view === location.hash && x.drawn)(document.querySelector('#main').dataset)")

    def again(self):
        """Until what was true when it was called has been drawn."""
        before = int(self.page.js("document.querySelector('#main').dataset.drawn ?? 0"))
        self.page.until(f"document.querySelector('#main').dataset.drawn > {before + 1}")

    def give_token(self):
        self.page.js(f"sessionStorage.setItem('token', {json.dumps(self.server.token)})")

    def press(self, selector, /, **fields):
        """A button's verb, with what its dialog asks for; it has to succeed."""
        self.page.click(f"main {selector}")
        self.fill_dialog(**fields)
        self.page.click("#dialog button[value=go]")
        self.page.until("!document.querySelector('#dialog').open")

    def fill_dialog(self, /, **fields):
        self.page.until("document.querySelector('#dialog').open")
        for field, text in fields.items():
            self.page.fill(f"#dialog [name={field}]", text)

    def dry_run(self, said):
        self.page.click("#dialog [value=dry]")
        self.page.until_text("#dialog .said", said)
        self.page.until("document.querySelector('#dialog [value=go]').checkVisibility()")

    def picture(self, name, width=1100, height=640):
        to = os.environ.get("GD_PAGE_IMAGES")
        if not to:
            return
        self.page.size(width, height)
        self.page.js("scrollTo(0, 0)")
        self.again()
        path = os.path.join(to, f"{name}.png")
        self.page.picture(path)
        self.assertLess(os.path.getsize(path), 150_000, path)

    def ids(self):
        """Of the rows of a table: instances, if that is what they are."""
        return self.page.js("[...document.querySelectorAll('main tbody tr')].map(x => x.dataset.key)")
