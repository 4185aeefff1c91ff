"""Changing an archive that exists: migrations, voided rows."""
