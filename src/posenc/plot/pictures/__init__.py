"""What each picture consists of: `panels` from its numbers, for the page and for paper."""
