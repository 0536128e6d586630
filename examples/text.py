"""Classify messages from four examples of each kind: `TailClassifier` on texts.

Run with `python examples/text.py`; needs `pip install 'unitail[offline]'`.
"""

from unitail import TailClassifier

EXAMPLES = {
    "refund": [
        "I want my money back for this order",
        "please refund the charge on my card",
        "how do I return the shoes and get paid back",
        "you billed me twice, give one payment back",
    ],
    "delivery": [
        "where is my parcel",
        "the package was supposed to arrive on Monday",
        "can you tell me when it will be delivered",
        "the courier left the box with a neighbour",
    ],
    "password": [
        "I cannot log in to my account",
        "how do I reset my password",
        "the site says my login is wrong",
        "I forgot the code for signing in",
    ],
}
NEW = {
    "my shipment still has not come": "delivery",
    "I was charged for something I sent back": "refund",
    "my account is locked and I can't sign in": "password",
    "when does the postman bring my order": "delivery",
    "I'd like a reimbursement": "refund",
    "the reset email for my login never arrives": "password",
}
STRANGE = "what is the capital of Mongolia"


def main() -> None:
    """Fit on a few messages, predict new ones, and detect one that fits no kind."""
    texts = [text for group in EXAMPLES.values() for text in group]
    labels = [kind for kind, group in EXAMPLES.items() for _ in group]
    classifier = TailClassifier(encoder="auto").fit(texts, labels)
    messages = [*NEW, STRANGE]
    novelty = classifier.novelty(messages)
    for text, answer, strange in zip(messages, classifier.predict(messages), novelty, strict=True):
        print(f"{answer:>9}, novelty {strange:.2f}: {text}")
    accuracy = (classifier.predict(list(NEW)) == list(NEW.values())).mean()
    print(f"accuracy: {accuracy:.2f} on {len(NEW)} messages")


if __name__ == "__main__":
    main()
