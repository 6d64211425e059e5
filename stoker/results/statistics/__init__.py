"""What measurements allow to be said: noise, verdicts, causes tried out, rankings. Pure."""
