import base64
import hashlib
import re
from html.parser import HTMLParser

from unitail.reproduction.grid import Cell, CellVerdict, Grid, Row
from unitail.reproduction.markdown import markdown_page
from unitail.reproduction.page import html_page
from unitail.reproduction.report import PlainTable, Report, Section

GRID = Grid(
    title="Table <1>",
    caption="A & B",
    columns=("net/x_y*, 5-way, 5-shot",),
    rows=(
        Row("5-shot", "TAIL", (Cell("91.00 (0.10)", "90.00 (0.10)", CellVerdict.HIGHER, True),)),
        Row("1-shot", "SNAIL", (Cell("", "80.00 (0.10)"),)),
    ),
    compared=True,
)
HYPHEN = "\N{NON-BREAKING HYPHEN}"
REPORT = Report(
    title="Report",
    notes=["<b>other</b> encoder"],
    sections=[
        Section(
            title="First",
            status="measured",
            grids=[GRID],
            tables=[PlainTable("Time <s>", "On & on", ["method", "5 <"], [["TAIL", "1.0 >"]])],
            pictures={"cub, 1-shot": b"\x89PNG"},
            versus=("anchor", ["learner", "g"], [["it", "**+1.0 ± 0.5 / -**, 1-0-0"]]),
            notes=["Note <i>"],
        ),
        Section(title="Second", status="skipped", todo=["unitail data prepare cub200 < a"]),
    ],
    commands=["unitail reproduce"],
    versions=[("torch", "2"), ("bank net/a->b", "abc")],
)


class _Tags(HTMLParser):
    VOID = ("meta", "img", "wbr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_asks_for_nothing() -> None:
    text = html_page(REPORT)
    assert '<th scope="col">net/<wbr>x_<wbr>y*, 5=way, 5=shot</th>' in text.replace(HYPHEN, "=")
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    sources = [attrs["src"] for tag, attrs in tags.seen if tag == "img"]
    assert [str(source)[:22] for source in sources] == ["data:image/png;base64,"]
    assert not [tag for tag, _ in tags.seen if tag in ("script", "link")]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text


def test_the_papers_number_is_in_a_second_line_and_colours_say_who_is_higher() -> None:
    text = html_page(REPORT)
    cell = '<td class="higher"><b>91.00 (0.10)</b><small>90.00 (0.10)</small></td>'
    assert cell in text
    assert "<td>\N{EN DASH}<small>80.00 (0.10)</small></td>" in text


def test_all_text_is_escaped() -> None:
    text = html_page(REPORT)
    for raw, escaped in (
        ("Table <1>", "Table &lt;1&gt;"),
        ("Note <i>", "Note &lt;i&gt;"),
        ("<b>other", "&lt;b&gt;other"),
        ("cub200 < a", "cub200 &lt; a"),
        ("Time <s>", "Time &lt;s&gt;"),
        ("5 <<", "5 &lt;<"),
        ("1.0 ><", "1.0 &gt;<"),
    ):
        assert raw not in text
        assert escaped in text
    assert "<b>+1.0 ± 0.5 / -</b>, 1-0-0" in text


def test_the_same_as_markdown() -> None:
    text = markdown_page(REPORT, {"cub, 1-shot": "cub-1-shot.png"})
    for piece in (
        "# Report\n",
        "## First\n\n*measured*",
        "| shots | method | net/x_y*, 5-way, 5-shot |",
        "| 5-shot | TAIL | **91.00 (0.10)** ▲<br>*90.00 (0.10)* |",
        "| 1-shot | SNAIL | -<br>*80.00 (0.10)* |",
        "![cub, 1-shot](cub-1-shot.png)",
        "### Time <s>\n\nOn & on\n\n| method | 5 < |",
        "| TAIL | 1.0 > |",
        "**Against anchor**",
        "```sh\nunitail data prepare cub200 < a\n```",
        "```sh\nunitail reproduce\n```",
        "| torch | 2 |",
    ):
        assert piece in text
