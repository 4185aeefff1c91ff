"""What an archive is: settings, state, calendar, lifetimes and keys."""
