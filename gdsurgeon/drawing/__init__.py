"""A graph as a picture: layout apart from drawing."""
