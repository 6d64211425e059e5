"""The probe of all-reduces."""
