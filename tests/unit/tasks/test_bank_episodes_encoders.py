from helpers.tables import numbered_table
from unitail.tasks.bank_episodes import BankEpisodes


def test_an_encoder_of_two_names_is_one() -> None:
    tables = [
        numbered_table((9, 9), name="one", encoder="efflite0"),
        numbered_table((9, 9), name="two", encoder="efficientnet-lite0"),
    ]
    assert [len(each.tables) for each in BankEpisodes(tables).numbered] == [2]
