"""What is known: corpus, retrieval, skills."""
