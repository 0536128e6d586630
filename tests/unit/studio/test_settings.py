from unitail.studio.settings import MAX_READINGS, ProjectSettings

X, Y, Z = ({name: "table"} for name in "xyz")


def test_settings_of_other_versions_are_read() -> None:
    stored = {"modality": "text", "colour": "blue"}
    assert ProjectSettings.of(stored) == ProjectSettings(modality="text")


def test_columns_that_are_replaced_are_kept_once_the_latest_last() -> None:
    settings = ProjectSettings(columns=X).with_columns(Y)
    assert (settings.columns, settings.earlier_columns) == (Y, [X])
    assert settings.with_columns(Y) == settings
    assert settings.keeping(Y) == settings.keeping(None) == settings
    back = settings.with_columns(Z).with_columns(X)
    assert (back.columns, back.earlier_columns) == (X, [Y, Z])
    assert back.keeping(Y).earlier_columns == [Z, Y]
    for number in range(20):
        back = back.with_columns({f"c{number}": "table"})
    assert back.earlier_columns is not None
    assert len(back.earlier_columns) == MAX_READINGS
    assert back.earlier_columns[-1] == {"c18": "table"}


def test_given_options_replace_others_and_kinds_only_their_own_columns() -> None:
    settings = ProjectSettings(columns={**X, **Y}, encoder="one", modality="table")
    given = ProjectSettings(columns={"y": "skip"}, encoder="two")
    chosen = settings.with_chosen(given)
    assert chosen == ProjectSettings(columns={**X, "y": "skip"}, encoder="two", modality="table")
    assert list(settings.differences(given)) == [("column", "y=skip", "y=table")]
    assert list(settings.differences(ProjectSettings(columns={"new": "skip"}))) == []
    other = ProjectSettings(modality="text", label_column="z")
    assert [each[0] for each in settings.differences(other)] == ["label_column", "modality"]
