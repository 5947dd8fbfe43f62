"""One module per sub-command, imported when that command is used."""
