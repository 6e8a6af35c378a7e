"""The six screens, the help, and the dialogs."""
