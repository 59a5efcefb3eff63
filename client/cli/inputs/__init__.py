"""Options, profiles and other input of commands."""
