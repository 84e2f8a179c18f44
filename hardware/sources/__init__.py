"""Files that users hand in: problems, their neighbours and candidates, as text that is read and never executed here."""
