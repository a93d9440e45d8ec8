"""What is read from the database: no function here changes anything."""
