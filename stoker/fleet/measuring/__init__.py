"""What is measured on a host: a server, all-reduces alone, a model without its server."""
