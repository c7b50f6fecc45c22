"""What models cost: dated quotes, a book of them that works offline, usage x quote in nano-dollars."""
