"""Jobs that restart what fails: the part that a program itself uses."""
