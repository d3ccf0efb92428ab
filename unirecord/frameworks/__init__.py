"""UniRecord in other people's frameworks, each imported when it is first used."""
