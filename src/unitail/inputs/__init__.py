"""From what a user has (files, tables, arrays) to vectors."""
