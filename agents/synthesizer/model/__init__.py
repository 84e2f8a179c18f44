"""Language models as authors, whoever serves them: prompt, conversation, retries, faults. Importing this is cheap."""
