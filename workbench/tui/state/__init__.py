"""What the screen shows, without the screen: plain objects, tested without an event loop and without Textual."""
