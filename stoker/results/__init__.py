"""What came back: records, their store, the verdict, and why a server is slower than it was. Knows no SSH."""
