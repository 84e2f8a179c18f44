"""How results look: tables, live displays, text for people and programs."""
