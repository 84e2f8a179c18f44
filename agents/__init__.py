"""Who acts: one agent per file or folder. No agent imports another; they meet only in events."""
