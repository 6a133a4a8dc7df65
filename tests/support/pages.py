"""The tables of an HTML page, as a reader sees them."""

from __future__ import annotations

from html.parser import HTMLParser


class _Tables(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tables, self.text, self._cell = [], [], None

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables:
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data):
        self.text.append(data)
        if self._cell is not None:
            self._cell.append(data)


def tables_of(page):
    """Return every table as a list of rows of text."""
    parser = _Tables()
    parser.feed(page)
    return parser.tables


def text_of(page):
    """Return the text of a page without tags."""
    parser = _Tables()
    parser.feed(page)
    return " ".join(" ".join(parser.text).split())


def number(text):
    """Return a number as it was written for people; None for a dash."""
    return None if text == "–" else float(text.replace(",", ""))
