"""The meaning of each request, implemented again by code that shares nothing with the edit."""
