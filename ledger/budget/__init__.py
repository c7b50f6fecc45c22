"""Ceilings and grants: what may be spent, decided in a session's hub before a request leaves."""
