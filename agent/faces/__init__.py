"""How a run is shown while it goes on, and what is printed at its end."""
