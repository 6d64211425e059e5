"""Profiles: how a server is started, proven and measured."""
