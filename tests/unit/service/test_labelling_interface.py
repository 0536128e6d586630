import time

import pytest

from unitail.service.labelling_interface import MAX_CONFIG, Interface
from unitail.web.replies import Refusal

STOCK = """
<View>
  <Text name="text" value="$text"/>
  <View style="box-shadow: 2px 2px 5px #999;
               padding: 20px; margin-top: 2em;
               border-radius: 5px;">
    <Header value="Choose text sentiment"/>
    <Choices name="sentiment" toName="text"
             choice="single" showInLine="true">
      <Choice value="Positive"/>
      <Choice value="Negative" alias="bad"/>
      <Choice value="Neutral"/>
    </Choices>
  </View>
</View>


<!-- {
"data": {"text": "This is a great 3D movie that delivers everything almost right in your face."}

}
-->

"""
"""Label Studio's template of text classification, but for the alias."""
READ = Interface("sentiment", "text", "text", "text", ("Positive", "bad", "Neutral"))
NESTED = "".join(f"<!ENTITY e{place} '{10 * f'&e{place - 1};'}'>" for place in range(1, 9))
LAUGHS = f"<!DOCTYPE x [<!ENTITY e0 'ha'>{NESTED}]><View a='&e8;'>&e8;</View>"


@pytest.mark.parametrize(
    "config",
    [
        STOCK,
        STOCK.replace("data", "<!DOCTYPE x [<!ENTITY a 'b'>]>"),
        STOCK.replace("<Header", "<![CDATA[ <!DOCTYPE x> ]]><Header"),
        '<?xml version="1.0" encoding="utf-16"?>' + STOCK.lstrip(),
        "<!-- first -->" + STOCK,
        STOCK.replace("</View>\n\n\n", "<Text value='$nameless'/><Choices/></View>"),
    ],
)
def test_label_studios_own_template_is_read(config: str) -> None:
    assert Interface.of(config) == READ


@pytest.mark.parametrize(
    "declared",
    [
        "<!DOCTYPE View>",
        "<!DOCTYPE View [<!ENTITY a 'b'>]>",
        "<!DOCTYPE View SYSTEM 'file:///etc/passwd'>",
        "<!DOCTYPE View PUBLIC 'a' 'http://127.0.0.1:9/'>",
        "<!-- c --> <!DOCTYPE\nView [<!ENTITY % a SYSTEM 'file:///etc/passwd'> %a;]>",
    ],
)
def test_document_types_are_refused(declared: str) -> None:
    with pytest.raises(Refusal, match=r"got one with a document type, <!DOCTYPE View>; allowed"):
        Interface.of(declared + STOCK)


def test_entities_that_expand_to_much_cost_nothing() -> None:
    start = time.perf_counter()
    with pytest.raises(Refusal, match="document type"):
        Interface.of(LAUGHS)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("config", "got"),
    [
        ("", "no element found"),
        ("<View>", "no element found"),
        ("<View/><View/>", "junk after document element"),
        ("<View>&a;</View>", "undefined entity"),
        ("\ud800" + STOCK, "surrogates not allowed"),
        (STOCK.replace("Choose", "\ud800"), "surrogates not allowed"),
        (STOCK.replace("Choose", "\0"), "not well-formed"),
        ("<View/>" + " " * MAX_CONFIG, "100,007 characters, more than 100,000"),
        ("<View/>", "0 such"),
        ('<View><Text value="$text"/><Choices><Choice value="a"/></Choices></View>', "0 such"),
        ('<View><Text name="" value="$a"/><Choices name="b" toName=""/></View>', "0 such"),
        ('<View><Text name="a" value="$a"/><Choices toName="a"/></View>', "0 such"),
        (STOCK.replace("</Choices>", '</Choices><Choices name="b" toName="text"/>'), "2 such"),
    ],
)
def test_what_is_no_interface_is_refused(config: str, got: str) -> None:
    with pytest.raises(Refusal, match="the labelling interface is not supported: got") as caught:
        Interface.of(config)
    assert got in str(caught.value)
    assert caught.value.status == 422


def test_deep_documents_are_read() -> None:
    deep = STOCK.replace("<Header", 9000 * "<a>" + 9000 * "</a>" + "<Header")
    assert Interface.of(deep) == READ
