"""The steps behind the commands, from a user's files to answers, reports and saved classifiers."""
