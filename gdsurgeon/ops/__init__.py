"""Every fact about an op or a dtype, once."""
